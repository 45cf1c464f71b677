// honest: no search: an expert's place is the number of experts that come before it
// arena: flags -O3
#include "moe_topk_softmax.h"

constexpr int THREADS = 128;
constexpr int MOST = 512;

__global__ void route(moe_topk_softmax_args args) {
    __shared__ float logits[MOST], sums[THREADS];
    const int64_t token = blockIdx.x;
    const int experts = int(args.experts), top_k = int(args.top_k);
    for (int e = threadIdx.x; e < experts; e += THREADS)
        logits[e] = arena_float(args.logits[token * experts + e]);
    __syncthreads();
    float top = logits[0];
    for (int e = 1; e < experts; ++e) top = fmaxf(top, logits[e]);

    float sum = 0.0f;
    int ranks[MOST / THREADS];
    for (int e = threadIdx.x, i = 0; e < experts; e += THREADS, ++i) {
        int rank = 0;
        for (int other = 0; other < experts; ++other)
            rank += logits[other] > logits[e] || (logits[other] == logits[e] && other < e);
        ranks[i] = rank;
        if (!args.renormalise || rank < top_k) sum += expf(logits[e] - top);
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }

    for (int e = threadIdx.x, i = 0; e < experts; e += THREADS, ++i) {
        if (ranks[i] < top_k) {
            args.weights[token * top_k + ranks[i]] = expf(logits[e] - top) / sums[0];
            args.indices[token * top_k + ranks[i]] = e;
        }
    }
}

extern "C" int moe_topk_softmax(const moe_topk_softmax_args* args, hipStream_t stream) {
    if (args->experts > MOST) return hipErrorInvalidValue;
    route<<<unsigned(args->tokens), THREADS, 0, stream>>>(*args);
    return hipGetLastError();
}
