// honest: reordered by the compiler for the machine's vectors, rows shared among threads
// arena: flags -O3 -ffast-math -march=native
#include "rms_norm.h"

#include <cmath>

extern "C" int rms_norm(const rms_norm_args* args) {
    const int64_t rows = args->rows, cols = args->cols;
#pragma omp parallel for num_threads(arena_threads()) if (rows * cols > 32768)
    for (int64_t row = 0; row < rows; ++row) {
        const float* x = args->x + row * cols;
        float* out = args->out + row * cols;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t col = 0; col < cols; ++col) sum += x[col] * x[col];
        const float scale = 1 / std::sqrt(sum / float(cols) + args->eps);
#pragma omp simd
        for (int64_t col = 0; col < cols; ++col) out[col] = x[col] * (scale * args->weight[col]);
    }
    return 0;
}
