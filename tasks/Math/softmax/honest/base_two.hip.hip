// honest: a group of lanes per row, base-2 exponentials of scaled inputs
#include "softmax.h"

#include <cfloat>

// So many lanes work together: they divide a wave, be it of 32 or 64.
constexpr int GROUP = 32, ROWS = 4;
constexpr float LOG2_E = 1.44269504f;

__global__ void softmax_kernel(softmax_args args) {
    const int64_t row = int64_t(blockIdx.x) * ROWS + threadIdx.x / GROUP;
    const int lane = threadIdx.x % GROUP;
    if (row >= args.rows) return;
    const arena_t* x = args.x + row * args.cols;

    float top = -FLT_MAX;
    for (int64_t col = lane; col < args.cols; col += GROUP) top = fmaxf(top, arena_float(x[col]));
    for (int step = GROUP / 2; step; step /= 2)
        top = fmaxf(top, __shfl_xor(top, step, GROUP));

    float sum = 0;
    for (int64_t col = lane; col < args.cols; col += GROUP)
        sum += exp2f((arena_float(x[col]) - top) * LOG2_E);
    for (int step = GROUP / 2; step; step /= 2) sum += __shfl_xor(sum, step, GROUP);

    for (int64_t col = lane; col < args.cols; col += GROUP)
        args.out[row * args.cols + col] =
            arena_value(exp2f((arena_float(x[col]) - top) * LOG2_E) * (1 / sum));
}

extern "C" int softmax(const softmax_args* args, hipStream_t stream) {
    const unsigned blocks = unsigned((args->rows + ROWS - 1) / ROWS);
    softmax_kernel<<<blocks, ROWS * GROUP, 0, stream>>>(*args);
    return hipGetLastError();
}
