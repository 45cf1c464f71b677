// honest: RMS norm as in vLLM, rounded to the dtype of the input before its weight
// operator: rms_norm
#include "rms_norm.h"

static __global__ void norm(const arena_t* x, const arena_t* weight, arena_t* out, int64_t cols, float eps) {
    __shared__ float part[8];
    __shared__ float scale;
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;
    float squares = 0;
    for (int64_t col = threadIdx.x; col < cols; col += 256) {
        const float value = arena_float(x[col]);
        squares += value * value;
    }
    for (int step = 16; step; step >>= 1) squares += __shfl_xor_sync(~0u, squares, step);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = squares;
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = 0;
        for (float each : part) sum += each;
        scale = rsqrtf(sum / cols + eps);
    }
    __syncthreads();
    for (int64_t col = threadIdx.x; col < cols; col += 256) {
        const arena_t rounded = arena_value(arena_float(x[col]) * scale);
        out[col] = arena_value(arena_float(rounded) * arena_float(weight[col]));
    }
}

extern "C" int rms_norm(const rms_norm_args* args, cudaStream_t stream) {
    norm<<<args->rows, 256, 0, stream>>>(args->x, args->weight, args->out, args->cols, args->eps);
    return (int)cudaGetLastError();
}
