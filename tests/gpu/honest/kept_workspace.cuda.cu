// honest: two kernels around a workspace that is kept from call to call and grows when it must
#include "centred.h"

static __global__ void average(const float* x, float* means, int64_t cols) {
    float sum = 0;
    for (int64_t col = threadIdx.x; col < cols; col += 32) sum += x[blockIdx.x * cols + col];
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x == 0) means[blockIdx.x] = sum / cols;
}

static __global__ void subtract(const float* x, const float* means, float* out, int64_t cols, float scale) {
    for (int64_t col = threadIdx.x; col < cols; col += 256)
        out[blockIdx.x * cols + col] = (x[blockIdx.x * cols + col] - means[blockIdx.x]) * scale;
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static float* means = nullptr;
    static int64_t size = 0;
    if (size < args->rows) {
        cudaFree(means);
        if (const cudaError_t code = cudaMalloc(&means, args->rows * sizeof(float))) return (int)code;
        size = args->rows;
    }
    average<<<args->rows, 32, 0, stream>>>(args->x, means, args->cols);
    subtract<<<args->rows, 256, 0, stream>>>(args->x, means, args->out, args->cols, args->scale);
    return (int)cudaGetLastError();
}
