// honest: a warp per token, base-2 exponentials and logarithm, rescaled as the maximum grows
#include "cross_entropy.h"

#include <cfloat>

constexpr int WARP = 32, TOKENS = 4;
constexpr float LOG2_E = 1.44269504f, LN_2 = 0.693147181f;

__global__ void cross_entropy_kernel(cross_entropy_args args) {
    const int64_t token = int64_t(blockIdx.x) * TOKENS + threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    if (token >= args.tokens) return;
    const arena_t* logits = args.logits + token * args.vocab;

    float top = -FLT_MAX, sum = 0;
    for (int64_t i = lane; i < args.vocab; i += WARP) {
        const float value = arena_float(logits[i]), higher = fmaxf(top, value);
        sum = sum * exp2f((top - higher) * LOG2_E) + exp2f((value - higher) * LOG2_E);
        top = higher;
    }
    float best = top;
    for (int step = WARP / 2; step; step /= 2)
        best = fmaxf(best, __shfl_xor_sync(~0u, best, step));
    sum *= exp2f((top - best) * LOG2_E);
    for (int step = WARP / 2; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);

    const int64_t target = args.targets[token];
    if (lane == 0)
        args.out[token] = target == args.ignore_index
                              ? 0
                              : log2f(sum) * LN_2 + (best - arena_float(logits[target]));
}

extern "C" int cross_entropy(const cross_entropy_args* args, cudaStream_t stream) {
    const unsigned blocks = unsigned((args->tokens + TOKENS - 1) / TOKENS);
    cross_entropy_kernel<<<blocks, TOKENS * WARP, 0, stream>>>(*args);
    return cudaGetLastError();
}
