// honest: each row is read for its largest magnitude, and again from the cache to be rounded
// arena: flags -O3 -ffast-math -march=native
#include "quantize_rows_int8.h"

#include <algorithm>
#include <cmath>

extern "C" int quantize_rows_int8(const quantize_rows_int8_args* args) {
    const int64_t rows = args->rows, cols = args->cols;
#pragma omp parallel for num_threads(arena_threads()) if (rows * cols > 32768)
    for (int64_t row = 0; row < rows; ++row) {
        const float* x = args->x + row * cols;
        int8_t* q = args->q + row * cols;
        float largest = 1e-12f;
#pragma omp simd reduction(max : largest)
        for (int64_t col = 0; col < cols; ++col) largest = std::max(largest, std::fabs(x[col]));
        const float scale = largest / 127, inverse = 127 / largest;
#pragma omp simd
        for (int64_t col = 0; col < cols; ++col) q[col] = int8_t(std::nearbyint(x[col] * inverse));
        args->scale[row] = scale;
    }
    return 0;
}
