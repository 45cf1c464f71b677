// honest: a block per token: the largest logit in one loop, the sum of exponentials in another
#include "cross_entropy.h"

#include <cfloat>

constexpr int THREADS = 512;

template <class Join>
__device__ float joined(float value, Join join) {
    __shared__ float values[THREADS];
    __syncthreads();
    values[threadIdx.x] = value;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            values[threadIdx.x] = join(values[threadIdx.x], values[threadIdx.x + half]);
    }
    __syncthreads();
    return values[0];
}

__global__ void cross_entropy_kernel(cross_entropy_args args) {
    const arena_t* logits = args.logits + int64_t(blockIdx.x) * args.vocab;
    const int64_t target = args.targets[blockIdx.x];

    float top = -FLT_MAX;
    for (int64_t i = threadIdx.x; i < args.vocab; i += THREADS)
        top = fmaxf(top, arena_float(logits[i]));
    top = joined(top, [](float a, float b) { return fmaxf(a, b); });

    float sum = 0;
    for (int64_t i = threadIdx.x; i < args.vocab; i += THREADS)
        sum += expf(arena_float(logits[i]) - top);
    sum = joined(sum, [](float a, float b) { return a + b; });

    if (threadIdx.x == 0) {
        const bool ignored = target == args.ignore_index;
        args.out[blockIdx.x] = ignored ? 0 : logf(sum) - (arena_float(logits[target]) - top);
    }
}

extern "C" int cross_entropy(const cross_entropy_args* args, hipStream_t stream) {
    cross_entropy_kernel<<<unsigned(args->tokens), THREADS, 0, stream>>>(*args);
    return hipGetLastError();
}
