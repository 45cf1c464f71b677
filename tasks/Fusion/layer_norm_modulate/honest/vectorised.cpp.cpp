// honest: mean, centred squares and output of a token while it is in the cache
// arena: flags -O3 -march=native -fno-math-errno -fno-trapping-math
#include "layer_norm_modulate.h"

#include <cmath>

static float sum_of(const float* x, int64_t count) {
    const int64_t part = count / 4;
    float a = 0, b = 0, c = 0, d = 0;
#pragma omp simd reduction(+ : a, b, c, d)
    for (int64_t i = 0; i < part; ++i) {
        a += x[i];
        b += x[i + part];
        c += x[i + 2 * part];
        d += x[i + 3 * part];
    }
    for (int64_t i = 4 * part; i < count; ++i) a += x[i];
    return (a + b) + (c + d);
}

static float sum_of_squares(const float* x, int64_t count, float mean) {
    const auto square = [mean](float value) { return (value - mean) * (value - mean); };
    const int64_t part = count / 4;
    float a = 0, b = 0, c = 0, d = 0;
#pragma omp simd reduction(+ : a, b, c, d)
    for (int64_t i = 0; i < part; ++i) {
        a += square(x[i]);
        b += square(x[i + part]);
        c += square(x[i + 2 * part]);
        d += square(x[i + 3 * part]);
    }
    for (int64_t i = 4 * part; i < count; ++i) a += square(x[i]);
    return (a + b) + (c + d);
}

extern "C" int layer_norm_modulate(const layer_norm_modulate_args* args) {
    const int64_t batch = args->batch, tokens = args->tokens, cols = args->cols;
#pragma omp parallel for collapse(2) num_threads(arena_threads()) if (batch * tokens * cols > 32768)
    for (int64_t image = 0; image < batch; ++image) {
        for (int64_t token = 0; token < tokens; ++token) {
            const float* x = args->x + (image * tokens + token) * cols;
            const float* shift = args->shift + image * cols;
            const float* scale = args->scale + image * cols;
            float* out = args->out + (image * tokens + token) * cols;
            const float mean = sum_of(x, cols) / float(cols);
            const float variance = sum_of_squares(x, cols, mean) / float(cols);
            const float inverse = 1 / std::sqrt(variance + args->eps);
#pragma omp simd
            for (int64_t col = 0; col < cols; ++col)
                out[col] = (x[col] - mean) * inverse * (1 + scale[col]) + shift[col];
        }
    }
    return 0;
}
