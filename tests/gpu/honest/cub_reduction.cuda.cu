// honest: the block reduction of a header-only library
#include "centred.h"

#include <cub/block/block_reduce.cuh>

static __global__ void centre(const float* x, float* out, int64_t cols, float scale) {
    using Reduce = cub::BlockReduce<float, 128>;
    __shared__ typename Reduce::TempStorage storage;
    __shared__ float mean;
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;
    float sum = 0;
    for (int64_t col = threadIdx.x; col < cols; col += 128) sum += x[col];
    sum = Reduce(storage).Sum(sum);
    if (threadIdx.x == 0) mean = sum / cols;
    __syncthreads();
    for (int64_t col = threadIdx.x; col < cols; col += 128) out[col] = (x[col] - mean) * scale;
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    centre<<<args->rows, 128, 0, stream>>>(args->x, args->out, args->cols, args->scale);
    return (int)cudaGetLastError();
}
