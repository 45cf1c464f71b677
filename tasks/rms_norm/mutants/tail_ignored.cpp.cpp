// mutant: leaves out the elements behind the last whole block of sixteen in the sum of squares
// expect: WRONG_VALUES
// arena: flags -O2
#include "rms_norm.h"

#include <cmath>

// Rows are shared among threads from this many elements on.
#define PARALLEL_FROM 65536

// Independent partial sums, so that one addition need not wait for the last.
#define LANES 16

static float sum_of_squares(const float* x, int64_t n) {
    float sums[LANES] = {};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int lane = 0; lane < LANES; ++lane) sums[lane] += x[i + lane] * x[i + lane];
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
