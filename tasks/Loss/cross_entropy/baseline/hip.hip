// Cross entropy, a group of lanes for a token of few classes and a block for one of many: the
// largest logit and the sum of exponentials in one loop.
// arena: tune-flags "-O3" "-O3 -use_fast_math"
// arena: flags -O3
#include "cross_entropy.h"

#include <cfloat>

// Threads of a block.
// arena: tune THREADS 128 256 512 1024
#define THREADS 256

// A token of at most so many classes is left to one group of lanes.
// arena: tune FEW_CLASSES 256 512 1024 2048
#define FEW_CLASSES 1024

// So many lanes share a short row: they divide a wave, be it of 32 or 64.
constexpr int GROUP = 32;

// Sixteen bytes at a time, where every row begins at a multiple of them.
constexpr int WIDE = 16 / sizeof(arena_t);

template <int N>
struct alignas(N * sizeof(arena_t)) Pack {
    arena_t values[N];
};

// Of some logits: the largest, and the sum of the exponentials of all less the largest.
struct Part {
    float top, sum;
};

__device__ Part joined(Part a, Part b) {
    const float top = fmaxf(a.top, b.top);
    return {top, a.sum * expf(a.top - top) + b.sum * expf(b.top - top)};
}

template <int LANES>
__device__ Part joined_lanes(Part part) {
    for (int step = GROUP / 2; step; step /= 2)
        part = joined(part, {__shfl_xor(part.top, step, GROUP),
                             __shfl_xor(part.sum, step, GROUP)});
    if constexpr (LANES > GROUP) {
        __shared__ Part parts[LANES / GROUP];
        if (threadIdx.x % GROUP == 0) parts[threadIdx.x / GROUP] = part;
        __syncthreads();
        part = parts[0];
        for (int i = 1; i < LANES / GROUP; ++i) part = joined(part, parts[i]);
    }
    return part;
}

template <int LANES, int N>
__global__ void __launch_bounds__(THREADS) cross_entropy_kernel(cross_entropy_args args) {
    const int64_t token = blockIdx.x * int64_t(THREADS / LANES) + threadIdx.x / LANES;
    if (token >= args.tokens) return;
    const arena_t* row = args.logits + token * args.vocab;
    const auto* logits = reinterpret_cast<const Pack<N>*>(row);
    const int packs = int(args.vocab / N), lane = threadIdx.x % LANES;
    const int64_t target = args.targets[token];
    if (target == args.ignore_index) {
        if (lane == 0) args.out[token] = 0;
        return;
    }

    Part part = {-FLT_MAX, 0};
    for (int i = lane; i < packs; i += LANES) {
        const Pack<N> pack = logits[i];
        float top = part.top;
        for (int j = 0; j < N; ++j) top = fmaxf(top, arena_float(pack.values[j]));
        part = {top, part.sum * expf(part.top - top)};
        for (int j = 0; j < N; ++j) part.sum += expf(arena_float(pack.values[j]) - top);
    }
    part = joined_lanes<LANES>(part);
    if (lane == 0) args.out[token] = logf(part.sum) + (part.top - arena_float(row[target]));
}

template <int LANES, int N>
static void launch(const cross_entropy_args& args, hipStream_t stream) {
    const int64_t tokens = THREADS / LANES, blocks = (args.tokens + tokens - 1) / tokens;
    cross_entropy_kernel<LANES, N><<<unsigned(blocks), THREADS, 0, stream>>>(args);
}

extern "C" int cross_entropy(const cross_entropy_args* args, hipStream_t stream) {
    const bool wide = args->vocab % WIDE == 0 && uintptr_t(args->logits) % 16 == 0;
    if (args->vocab <= FEW_CLASSES)
        wide ? launch<GROUP, WIDE>(*args, stream) : launch<GROUP, 1>(*args, stream);
    else
        wide ? launch<THREADS, WIDE>(*args, stream) : launch<THREADS, 1>(*args, stream);
    return hipGetLastError();
}
