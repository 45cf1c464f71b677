// honest: rows shared among threads
#include "centred.h"

extern "C" int centred(const centred_args* args) {
    const int64_t rows = args->rows, cols = args->cols;
#pragma omp parallel for num_threads(arena_threads())
    for (int64_t row = 0; row < rows; ++row) {
        const float* x = args->x + row * cols;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t col = 0; col < cols; ++col) sum += x[col];
        const float mean = sum / cols;
#pragma omp simd
        for (int64_t col = 0; col < cols; ++col) args->out[row * cols + col] = (x[col] - mean) * args->scale;
    }
    return 0;
}
