// honest: a second kernel that begins early and waits for the first before it reads its means
#include "centred.h"

static __device__ float means[256];

static __global__ void average(const float* x, int64_t cols) {
    cudaGridDependencySynchronize();
    float sum = 0;
    for (int64_t col = threadIdx.x; col < cols; col += 32) sum += x[blockIdx.x * cols + col];
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x == 0) means[blockIdx.x] = sum / cols;
}

static __global__ void subtract(const float* x, float* out, int64_t cols, float scale) {
    cudaGridDependencySynchronize();
    for (int64_t col = threadIdx.x; col < cols; col += 256)
        out[blockIdx.x * cols + col] = (x[blockIdx.x * cols + col] - means[blockIdx.x]) * scale;
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    if (args->rows > 256) return -1;
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(args->rows);
    config.blockDim = dim3(256);
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    average<<<args->rows, 32, 0, stream>>>(args->x, args->cols);
    return (int)cudaLaunchKernelEx(&config, subtract, (const float*)args->x, args->out, args->cols, args->scale);
}
