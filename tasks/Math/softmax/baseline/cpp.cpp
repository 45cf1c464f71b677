// Softmax, one row at a time: its maximum, its exponentials and their sum, then a pass that divides.
// arena: tune-flags "-O2" "-O3" "-O3 -march=native" "-O3 -ffast-math" "-O3 -ffast-math -march=native"
// arena: flags -O2
#include "softmax.h"

#include <algorithm>
#include <cmath>

// Rows are shared among threads from this many elements on.
// arena: tune PARALLEL_FROM 0 4096 16384 262144
#define PARALLEL_FROM 16384

// Independent partial results, so that one operation need not wait for the last.
// arena: tune LANES 1 4 8 16
#define LANES 1

static float maximum(const float* x, int64_t n) {
    float best[LANES];
    std::fill(best, best + LANES, x[0]);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int lane = 0; lane < LANES; ++lane)
            best[lane] = x[i + lane] > best[lane] ? x[i + lane] : best[lane];
    for (; i < n; ++i) best[0] = std::max(best[0], x[i]);
    return *std::max_element(best, best + LANES);
}

// The sum is kept in double: a float would lose the small terms of a long row.
static double exponentials(const float* x, float* out, float shift, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
        out[i] = std::exp(x[i] - shift);
        sum += out[i];
    }
    return sum;
}

extern "C" int softmax(const softmax_args* args) {
    const int64_t rows = args->rows, cols = args->cols;

#pragma omp parallel for num_threads(arena_threads()) if (rows * cols >= PARALLEL_FROM)
    for (int64_t row = 0; row < rows; ++row) {
        const float* x = args->x + row * cols;
        float* out = args->out + row * cols;
        const float scale = float(1 / exponentials(x, out, maximum(x, cols), cols));
        for (int64_t col = 0; col < cols; ++col) out[col] *= scale;
    }
    return 0;
}
