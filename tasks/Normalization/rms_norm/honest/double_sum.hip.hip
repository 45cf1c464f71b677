// honest: a group of lanes per row, its squares added in double
#include "rms_norm.h"

// So many lanes work together: they divide a wave, be it of 32 or 64.
constexpr int GROUP = 32, ROWS = 8;

__global__ void rms_norm_kernel(rms_norm_args args) {
    const int64_t row = int64_t(blockIdx.x) * ROWS + threadIdx.x / GROUP;
    const int lane = threadIdx.x % GROUP;
    if (row >= args.rows) return;
    const arena_t* x = args.x + row * args.cols;

    double sum = 0;
    for (int64_t col = lane; col < args.cols; col += GROUP) {
        const double value = arena_float(x[col]);
        sum += value * value;
    }
    for (int step = GROUP / 2; step; step /= 2) sum += __shfl_xor(sum, step, GROUP);
    const float scale = float(1 / sqrt(sum / double(args.cols) + double(args.eps)));
    for (int64_t col = lane; col < args.cols; col += GROUP)
        args.out[row * args.cols + col] =
            arena_value(arena_float(x[col]) * scale * arena_float(args.weight[col]));
}

extern "C" int rms_norm(const rms_norm_args* args, hipStream_t stream) {
    const unsigned blocks = unsigned((args->rows + ROWS - 1) / ROWS);
    rms_norm_kernel<<<blocks, ROWS * GROUP, 0, stream>>>(*args);
    return hipGetLastError();
}
