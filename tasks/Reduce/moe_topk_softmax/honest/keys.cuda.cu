// honest: logits and experts packed into integer keys, so that one maximum finds both; any k
// arena: flags -O3
#include "moe_topk_softmax.h"

constexpr unsigned ALL = 0xffffffff;

// Larger for a larger logit, and of equal ones (0 and -0 are) for the lower expert. Above 0.
__device__ unsigned long long key_of(float logit, int expert) {
    const unsigned bits = __float_as_uint(logit + 0.0f);
    const unsigned order = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (unsigned long long)order << 32 | (0xffffffffu - unsigned(expert));
}

__device__ unsigned long long largest_of(unsigned long long key) {
    for (int step = 16; step; step /= 2) {
        const unsigned long long other = __shfl_xor_sync(ALL, key, step);
        key = other > key ? other : key;
    }
    return key;
}

__global__ void route(moe_topk_softmax_args args) {
    const int lane = threadIdx.x % 32;
    const int64_t token = int64_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    if (token >= args.tokens) return;
    const arena_t* row = args.logits + token * args.experts;

    // Nothing is marked as taken: each search wants what is below the last find.
    unsigned long long last = ~0ull;
    float top = 0.0f, power = 0.0f, chosen = 0.0f;
    int index = 0;
    for (int i = 0; i < args.top_k; ++i) {
        unsigned long long best = 0;
        for (int expert = lane; expert < args.experts; expert += 32) {
            const unsigned long long key = key_of(arena_float(row[expert]), expert);
            if (key < last && key > best) best = key;
        }
        last = largest_of(best);
        const int expert = int(0xffffffffu - unsigned(last));
        const float logit = arena_float(row[expert]);
        if (i == 0) top = logit;
        const float found = expf(logit - top);
        chosen += found;
        if (lane == i) power = found, index = expert;
    }

    float total = 0.0f;
    for (int expert = lane; expert < args.experts; expert += 32)
        total += expf(arena_float(row[expert]) - top);
    for (int step = 16; step; step /= 2) total += __shfl_xor_sync(ALL, total, step);
    if (lane < args.top_k) {
        args.weights[token * args.top_k + lane] = power / (args.renormalise ? chosen : total);
        args.indices[token * args.top_k + lane] = index;
    }
}

extern "C" int moe_topk_softmax(const moe_topk_softmax_args* args, cudaStream_t stream) {
    route<<<unsigned((args->tokens + 3) / 4), 128, 0, stream>>>(*args);
    return cudaGetLastError();
}
