// honest: picks of a row as independent loads, rows shared among threads
// arena: flags -O3 -march=native
#include "gather_columns.h"

extern "C" int gather_columns(const gather_columns_args* args) {
    const int64_t rows = args->rows, cols = args->cols, picks = args->picks;
#pragma omp parallel for num_threads(arena_threads()) if (rows * picks > 8192)
    for (int64_t row = 0; row < rows; ++row) {
        const float* x = args->x + row * cols;
        const int64_t* index = args->index + row * picks;
        float* out = args->out + row * picks;
#pragma omp simd
        for (int64_t i = 0; i < picks; ++i) out[i] = x[index[i]];
    }
    return 0;
}
