// honest: a warp for each row, by shuffles, with bounds on the launch
// after_faults: 3
#include "centred.h"

static __global__ void __launch_bounds__(256, 4)
centre(const float* __restrict__ x, float* __restrict__ out, int64_t rows, int64_t cols, float scale) {
    const int64_t row = blockIdx.x * 8L + threadIdx.x / 32;
    if (row >= rows) return;
    x += row * cols;
    out += row * cols;
    float sum = 0;
    for (int64_t col = threadIdx.x % 32; col < cols; col += 32) sum += x[col];
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
    const float mean = sum / cols;
    for (int64_t col = threadIdx.x % 32; col < cols; col += 32) out[col] = (x[col] - mean) * scale;
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    centre<<<(args->rows + 7) / 8, 256, 0, stream>>>(args->x, args->out, args->rows, args->cols, args->scale);
    return (int)cudaGetLastError();
}
