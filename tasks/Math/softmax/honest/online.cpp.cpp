// honest: maximum and sum in one pass, the sum rescaled whenever the maximum grows
// arena: flags -O3
#include "softmax.h"

#include <cmath>

extern "C" int softmax(const softmax_args* args) {
    const int64_t rows = args->rows, cols = args->cols;
#pragma omp parallel for num_threads(arena_threads()) if (rows * cols > 16384)
    for (int64_t row = 0; row < rows; ++row) {
        const float* x = args->x + row * cols;
        float* out = args->out + row * cols;
        float shift = x[0];
        double sum = 1;
        for (int64_t col = 1; col < cols; ++col) {
            if (x[col] > shift) {
                sum = sum * std::exp(shift - x[col]) + 1;
                shift = x[col];
            } else {
                sum += std::exp(x[col] - shift);
            }
        }
        for (int64_t col = 0; col < cols; ++col)
            out[col] = float(std::exp(x[col] - shift) / sum);
    }
    return 0;
}
