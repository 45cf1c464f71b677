// mutant: subtracts no maximum, so that large inputs overflow or vanish
// arena: flags -O2
#include "softmax.h"

#include <algorithm>
#include <cmath>

// Rows are shared among threads from this many elements on.
#define PARALLEL_FROM 16384

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
        const float scale = float(1 / exponentials(x, out, 0, cols));
        for (int64_t col = 0; col < cols; ++col) out[col] *= scale;
    }
    return 0;
}
