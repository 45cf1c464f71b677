// honest: four sums of squares at once, rows shared among threads
// arena: flags -O3 -march=native -fno-math-errno -fno-trapping-math
#include "l2_normalize.h"

#include <algorithm>
#include <cmath>

static float sum_of_squares(const float* x, int64_t count) {
    const int64_t part = count / 4;
    float a = 0, b = 0, c = 0, d = 0;
#pragma omp simd reduction(+ : a, b, c, d)
    for (int64_t i = 0; i < part; ++i) {
        a += x[i] * x[i];
        b += x[i + part] * x[i + part];
        c += x[i + 2 * part] * x[i + 2 * part];
        d += x[i + 3 * part] * x[i + 3 * part];
    }
    for (int64_t i = 4 * part; i < count; ++i) a += x[i] * x[i];
    return (a + b) + (c + d);
}

extern "C" int l2_normalize(const l2_normalize_args* args) {
    const int64_t rows = args->rows, cols = args->cols;
#pragma omp parallel for num_threads(arena_threads()) if (rows * cols > 32768)
    for (int64_t row = 0; row < rows; ++row) {
        const float* x = args->x + row * cols;
        float* out = args->out + row * cols;
        const float scale = 1 / std::max(std::sqrt(sum_of_squares(x, cols)), args->eps);
#pragma omp simd
        for (int64_t col = 0; col < cols; ++col) out[col] = x[col] * scale;
    }
    return 0;
}
