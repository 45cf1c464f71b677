// honest: loads of four values where rows are aligned, else of one; templates choose
#include "centred.h"

template <typename Pack, int BLOCK>
static __global__ void centre(const float* x, float* out, int64_t cols, float scale) {
    constexpr int WIDTH = sizeof(Pack) / sizeof(float);
    __shared__ float sums[BLOCK / 32];
    const Pack* from = (const Pack*)(x + blockIdx.x * cols);
    Pack* to = (Pack*)(out + blockIdx.x * cols);
    float sum = 0;
    for (int64_t i = threadIdx.x; i < cols / WIDTH; i += BLOCK) {
        const Pack pack = from[i];
        for (int j = 0; j < WIDTH; ++j) sum += ((const float*)&pack)[j];
    }
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    float total = 0;
    for (int i = 0; i < BLOCK / 32; ++i) total += sums[i];
    const float mean = total / cols;
    for (int64_t i = threadIdx.x; i < cols / WIDTH; i += BLOCK) {
        Pack pack = from[i];
        for (int j = 0; j < WIDTH; ++j) ((float*)&pack)[j] = (((float*)&pack)[j] - mean) * scale;
        to[i] = pack;
    }
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    if (args->cols % 4 == 0)
        centre<float4, 128><<<args->rows, 128, 0, stream>>>(args->x, args->out, args->cols, args->scale);
    else
        centre<float, 256><<<args->rows, 256, 0, stream>>>(args->x, args->out, args->cols, args->scale);
    return (int)cudaGetLastError();
}
