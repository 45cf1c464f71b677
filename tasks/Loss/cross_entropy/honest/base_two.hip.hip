// honest: a group of lanes per token, base-2 exponentials and logarithm, rescaled as it goes
#include "cross_entropy.h"

#include <cfloat>

// So many lanes work together: they divide a wave, be it of 32 or 64.
constexpr int GROUP = 32, TOKENS = 4;
constexpr float LOG2_E = 1.44269504f, LN_2 = 0.693147181f;

__global__ void cross_entropy_kernel(cross_entropy_args args) {
    const int64_t token = int64_t(blockIdx.x) * TOKENS + threadIdx.x / GROUP;
    const int lane = threadIdx.x % GROUP;
    if (token >= args.tokens) return;
    const arena_t* logits = args.logits + token * args.vocab;

    float top = -FLT_MAX, sum = 0;
    for (int64_t i = lane; i < args.vocab; i += GROUP) {
        const float value = arena_float(logits[i]), higher = fmaxf(top, value);
        sum = sum * exp2f((top - higher) * LOG2_E) + exp2f((value - higher) * LOG2_E);
        top = higher;
    }
    float best = top;
    for (int step = GROUP / 2; step; step /= 2)
        best = fmaxf(best, __shfl_xor(best, step, GROUP));
    sum *= exp2f((top - best) * LOG2_E);
    for (int step = GROUP / 2; step; step /= 2) sum += __shfl_xor(sum, step, GROUP);

    const int64_t target = args.targets[token];
    if (lane == 0)
        args.out[token] = target == args.ignore_index
                              ? 0
                              : log2f(sum) * LN_2 + (best - arena_float(logits[target]));
}

extern "C" int cross_entropy(const cross_entropy_args* args, hipStream_t stream) {
    const unsigned blocks = unsigned((args->tokens + TOKENS - 1) / TOKENS);
    cross_entropy_kernel<<<blocks, TOKENS * GROUP, 0, stream>>>(*args);
    return hipGetLastError();
}
