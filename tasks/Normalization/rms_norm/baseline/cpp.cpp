// RMS norm, one row at a time: the sum of its squares, then one pass that scales.
// arena: tune-flags "-O2" "-O3" "-O3 -march=native" "-O3 -ffast-math -march=native"
// arena: flags -O2
#include "rms_norm.h"

#include <cmath>

// Rows are shared among threads from this many elements on.
// arena: tune PARALLEL_FROM 0 8192 65536 1048576
#define PARALLEL_FROM 65536

// Independent partial sums, so that one addition need not wait for the last.
// arena: tune LANES 1 4 8 16 32
#define LANES 1

static float sum_of_squares(const float* x, int64_t n) {
    float sums[LANES] = {};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int lane = 0; lane < LANES; ++lane) sums[lane] += x[i + lane] * x[i + lane];
    for (; i < n; ++i) sums[0] += x[i] * x[i];
    float sum = 0;
    for (float part : sums) sum += part;
    return sum;
}

extern "C" int rms_norm(const rms_norm_args* args) {
    const int64_t rows = args->rows, cols = args->cols;
    const float* weight = args->weight;

#pragma omp parallel for num_threads(arena_threads()) if (rows * cols >= PARALLEL_FROM)
    for (int64_t row = 0; row < rows; ++row) {
        const float* x = args->x + row * cols;
        float* out = args->out + row * cols;
        const float scale = 1 / std::sqrt(sum_of_squares(x, cols) / cols + args->eps);
        for (int64_t col = 0; col < cols; ++col) out[col] = x[col] * scale * weight[col];
    }
    return 0;
}
