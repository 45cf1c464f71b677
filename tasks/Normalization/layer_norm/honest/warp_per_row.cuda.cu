// honest: a warp a row whatever its length, three passes through the cache, lanes side by side
// arena: flags -O3
#include "layer_norm.h"

constexpr int WARPS = 4;

static __device__ float warp_sum(float value) {
    for (int step = 16; step; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
}

static __global__ void rows_of_warps(const arena_t* x, const arena_t* weight, const arena_t* bias,
                                     arena_t* out, int64_t rows, int64_t cols, float eps) {
    const int lane = threadIdx.x;
    for (int64_t row = blockIdx.x * int64_t(WARPS) + threadIdx.y; row < rows;
         row += int64_t(gridDim.x) * WARPS) {
        const arena_t* from = x + row * cols;
        float sum = 0, squares = 0;
        for (int64_t col = lane; col < cols; col += 32) sum += arena_float(from[col]);
        const float mean = warp_sum(sum) / cols;
        for (int64_t col = lane; col < cols; col += 32) {
            const float centred = arena_float(from[col]) - mean;
            squares += centred * centred;
        }
        const float scale = rsqrtf(warp_sum(squares) / cols + eps);
        for (int64_t col = lane; col < cols; col += 32)
            out[row * cols + col] =
                arena_value((arena_float(from[col]) - mean) * scale * arena_float(weight[col]) +
                            arena_float(bias[col]));
    }
}

extern "C" int layer_norm(const layer_norm_args* args, cudaStream_t stream) {
    const int64_t blocks = (args->rows + WARPS - 1) / WARPS;
    rows_of_warps<<<blocks < 65535 ? blocks : 65535, dim3(32, WARPS), 0, stream>>>(
        args->x, args->weight, args->bias, args->out, args->rows, args->cols, args->eps);
    return cudaGetLastError();
}
