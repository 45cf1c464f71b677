// honest: a wave a row, of as many lanes as the device says
// arena: flags -O3
#include "layer_norm.h"

static __device__ float wave_sum(float value) {
    for (int step = warpSize / 2; step; step /= 2) value += __shfl_xor(value, step);
    return value;
}

static __global__ void layer_norm_kernel(const arena_t* x, const arena_t* weight,
                                         const arena_t* bias, arena_t* out, int64_t rows,
                                         int64_t cols, float eps) {
    const int lane = threadIdx.x % warpSize, waves = blockDim.x / warpSize;
    for (int64_t row = blockIdx.x * int64_t(waves) + threadIdx.x / warpSize; row < rows;
         row += gridDim.x * int64_t(waves)) {
        const arena_t* from = x + row * cols;
        float sum = 0, squares = 0;
        for (int64_t col = lane; col < cols; col += warpSize) sum += arena_float(from[col]);
        const float mean = wave_sum(sum) / cols;
        for (int64_t col = lane; col < cols; col += warpSize) {
            const float centred = arena_float(from[col]) - mean;
            squares += centred * centred;
        }
        const float scale = rsqrtf(wave_sum(squares) / cols + eps);
        for (int64_t col = lane; col < cols; col += warpSize)
            out[row * cols + col] =
                arena_value((arena_float(from[col]) - mean) * scale * arena_float(weight[col]) +
                            arena_float(bias[col]));
    }
}

extern "C" int layer_norm(const layer_norm_args* args, hipStream_t stream) {
    const int64_t blocks = (args->rows + 3) / 4;
    layer_norm_kernel<<<blocks < 65535 ? blocks : 65535, 256, 0, stream>>>(
        args->x, args->weight, args->bias, args->out, args->rows, args->cols, args->eps);
    return hipGetLastError();
}
