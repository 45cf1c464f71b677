// honest: a thread for a token, which keeps its best in a sorted list and sums up as it reads
// arena: flags -O3 -use_fast_math
#include "moe_topk_softmax.h"

constexpr int MOST = 8;

__global__ void route(moe_topk_softmax_args args) {
    const int64_t token = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (token >= args.tokens) return;
    const arena_t* row = args.logits + token * args.experts;
    float best[MOST];
    int chosen[MOST];
    for (int i = 0; i < MOST; ++i) best[i] = -INFINITY, chosen[i] = 0;

    float top = -INFINITY, total = 0.0f;
    for (int expert = 0; expert < args.experts; ++expert) {
        const float logit = arena_float(row[expert]);
        if (logit > top) {
            total *= exp2f((top - logit) * 1.44269504f);
            top = logit;
        }
        total += exp2f((logit - top) * 1.44269504f);
        // Takes its place behind all that are as large, since they came first; the rest move on.
        float value = logit;
        int index = expert;
        bool placed = false;
#pragma unroll
        for (int i = 0; i < MOST; ++i) {
            placed |= value > best[i];
            if (placed) {
                const float passed = best[i];
                const int moved = chosen[i];
                best[i] = value, chosen[i] = index;
                value = passed, index = moved;
            }
        }
    }

    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < MOST; ++i) {
        best[i] = exp2f((best[i] - top) * 1.44269504f);
        if (i < args.top_k) sum += best[i];
    }
    const float scale = 1.0f / (args.renormalise ? sum : total);
#pragma unroll
    for (int i = 0; i < MOST; ++i) {
        if (i < args.top_k) {
            args.weights[token * args.top_k + i] = best[i] * scale;
            args.indices[token * args.top_k + i] = chosen[i];
        }
    }
}

extern "C" int moe_topk_softmax(const moe_topk_softmax_args* args, cudaStream_t stream) {
    if (args->top_k > MOST) return cudaErrorInvalidValue;
    route<<<unsigned((args->tokens + 127) / 128), 128, 0, stream>>>(*args);
    return cudaGetLastError();
}
