// honest: flags of its own, C++20 and a lambda that runs on the GPU
// arena: flags -use_fast_math -maxrregcount=64 -std=c++20 -extended-lambda
#include "centred.h"

#include <concepts>

template <std::invocable<int64_t, float> Store>
static __global__ void with_mean(const float* x, int64_t cols, Store store) {
    const int64_t start = blockIdx.x * cols;
    float sum = 0;
    for (int64_t col = threadIdx.x; col < cols; col += 32) sum += x[start + col];
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
    for (int64_t col = threadIdx.x; col < cols; col += 32) store(start + col, sum / cols);
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    const float* x = args->x;
    float *out = args->out, scale = args->scale;
    const auto store = [=] __device__(int64_t i, float mean) { out[i] = (x[i] - mean) * scale; };
    with_mean<<<args->rows, 32, 0, stream>>>(x, args->cols, store);
    return (int)cudaGetLastError();
}
