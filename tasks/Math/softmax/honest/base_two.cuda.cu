// honest: a warp per row, base-2 exponentials of scaled inputs
#include "softmax.h"

#include <cfloat>

constexpr int WARP = 32, ROWS = 4;
constexpr float LOG2_E = 1.44269504f;

__global__ void softmax_kernel(softmax_args args) {
    const int64_t row = int64_t(blockIdx.x) * ROWS + threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    if (row >= args.rows) return;
    const arena_t* x = args.x + row * args.cols;

    float top = -FLT_MAX;
    for (int64_t col = lane; col < args.cols; col += WARP) top = fmaxf(top, arena_float(x[col]));
    for (int step = WARP / 2; step; step /= 2)
        top = fmaxf(top, __shfl_xor_sync(~0u, top, step));

    float sum = 0;
    for (int64_t col = lane; col < args.cols; col += WARP)
        sum += exp2f((arena_float(x[col]) - top) * LOG2_E);
    for (int step = WARP / 2; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);

    for (int64_t col = lane; col < args.cols; col += WARP)
        args.out[row * args.cols + col] =
            arena_value(exp2f((arena_float(x[col]) - top) * LOG2_E) * (1 / sum));
}

extern "C" int softmax(const softmax_args* args, cudaStream_t stream) {
    const unsigned blocks = unsigned((args->rows + ROWS - 1) / ROWS);
    softmax_kernel<<<blocks, ROWS * WARP, 0, stream>>>(*args);
    return cudaGetLastError();
}
