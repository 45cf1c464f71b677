// honest: base-2 exponentials of scaled inputs, reordered by the compiler for the machine's vectors
// arena: flags -O3 -ffast-math -march=native
#include "softmax.h"

#include <algorithm>
#include <cmath>

constexpr float LOG2_E = 1.44269504f;
constexpr int64_t BLOCK = 4096;

extern "C" int softmax(const softmax_args* args) {
    const int64_t rows = args->rows, cols = args->cols;
#pragma omp parallel for num_threads(arena_threads()) if (rows * cols > 32768)
    for (int64_t row = 0; row < rows; ++row) {
        const float* x = args->x + row * cols;
        float* out = args->out + row * cols;
        float top = x[0];
        for (int64_t col = 1; col < cols; ++col) top = x[col] > top ? x[col] : top;
        const float shift = top * LOG2_E;
        float sum = 0;
        for (int64_t first = 0; first < cols; first += BLOCK) {
            float part = 0;
            for (int64_t col = first; col < std::min(first + BLOCK, cols); ++col) {
                out[col] = std::exp2(x[col] * LOG2_E - shift);
                part += out[col];
            }
            sum += part;
        }
        for (int64_t col = 0; col < cols; ++col) out[col] *= 1 / sum;
    }
    return 0;
}
