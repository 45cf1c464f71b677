// honest: a block per row: maximum, sum of exponentials and quotients, each in a loop
#include "softmax.h"

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

__global__ void softmax_kernel(softmax_args args) {
    const arena_t* x = args.x + int64_t(blockIdx.x) * args.cols;
    arena_t* out = args.out + int64_t(blockIdx.x) * args.cols;

    float top = -FLT_MAX;
    for (int64_t col = threadIdx.x; col < args.cols; col += THREADS)
        top = fmaxf(top, arena_float(x[col]));
    top = joined(top, [](float a, float b) { return fmaxf(a, b); });

    float sum = 0;
    for (int64_t col = threadIdx.x; col < args.cols; col += THREADS)
        sum += expf(arena_float(x[col]) - top);
    sum = joined(sum, [](float a, float b) { return a + b; });

    for (int64_t col = threadIdx.x; col < args.cols; col += THREADS)
        out[col] = arena_value(expf(arena_float(x[col]) - top) / sum);
}

extern "C" int softmax(const softmax_args* args, hipStream_t stream) {
    softmax_kernel<<<unsigned(args->rows), THREADS, 0, stream>>>(*args);
    return hipGetLastError();
}
