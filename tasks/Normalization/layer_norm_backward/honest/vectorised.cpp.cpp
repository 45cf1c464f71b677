// honest: every row in the cache, gradients of the parameters summed by thread and block of rows
// arena: flags -O3 -march=native -fno-math-errno -fno-trapping-math
#include "layer_norm_backward.h"

#include <algorithm>
#include <cmath>
#include <vector>

constexpr int64_t BLOCK = 64;

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

// Both passes of one row; adds its part of the gradients of the parameters.
static void both_passes(const layer_norm_backward_args* args, int64_t row, float* weight_gradient,
                        float* bias_gradient) {
    const int64_t cols = args->cols;
    const float *x = args->x + row * cols, *gradient = args->gradient + row * cols;
    const float *weight = args->weight, *bias = args->bias;
    float *out = args->out + row * cols, *x_gradient = args->x_gradient + row * cols;
    const float mean = sum_of(x, cols) / float(cols);
    const float variance = sum_of_squares(x, cols, mean) / float(cols);
    const float inverse = 1 / std::sqrt(variance + args->eps);
    float sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
    for (int64_t col = 0; col < cols; ++col) {
        const float norm = (x[col] - mean) * inverse;
        const float g = gradient[col] * weight[col];
        sum += g;
        product += g * norm;
        weight_gradient[col] += gradient[col] * norm;
        bias_gradient[col] += gradient[col];
        out[col] = norm * weight[col] + bias[col];
    }
    sum /= float(cols);
    product /= float(cols);
#pragma omp simd
    for (int64_t col = 0; col < cols; ++col) {
        const float norm = (x[col] - mean) * inverse;
        x_gradient[col] = (gradient[col] * weight[col] - sum - norm * product) * inverse;
    }
}

extern "C" int layer_norm_backward(const layer_norm_backward_args* args) {
    const int64_t rows = args->rows, cols = args->cols;
    const int64_t threads = rows * cols > 16384 ? std::min<int64_t>(arena_threads(), rows) : 1;
    std::vector<float> sums(threads * 2 * cols);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int64_t thread = 0; thread < threads; ++thread) {
        const int64_t end = rows * (thread + 1) / threads;
        std::vector<float> block(2 * cols);
        float* total = sums.data() + thread * 2 * cols;
        for (int64_t first = rows * thread / threads; first < end; first += BLOCK) {
            std::fill(block.begin(), block.end(), 0.0f);
            for (int64_t row = first; row < std::min(first + BLOCK, end); ++row)
                both_passes(args, row, block.data(), block.data() + cols);
            for (int64_t i = 0; i < 2 * cols; ++i) total[i] += block[i];
        }
    }
    for (int64_t thread = 1; thread < threads; ++thread)
        for (int64_t i = 0; i < 2 * cols; ++i) sums[i] += sums[thread * 2 * cols + i];
    std::copy_n(sums.data(), cols, args->weight_gradient);
    std::copy_n(sums.data() + cols, cols, args->bias_gradient);
    return 0;
}
