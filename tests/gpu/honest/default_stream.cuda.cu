// honest: a launch without a stream, as in an introduction to CUDA
#include "centred.h"

static __global__ void centre(const float* x, float* out, int64_t cols, float scale) {
    __shared__ float part[8];
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;
    float sum = 0;
    for (int64_t col = threadIdx.x; col < cols; col += 256) sum += x[col];
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int warp = 0; warp < 8; ++warp) sum += part[warp];
    for (int64_t col = threadIdx.x; col < cols; col += 256) out[col] = (x[col] - sum / cols) * scale;
}

extern "C" int centred(const centred_args* args, cudaStream_t) {
    centre<<<args->rows, 256>>>(args->x, args->out, args->cols, args->scale);
    return (int)cudaGetLastError();
}
