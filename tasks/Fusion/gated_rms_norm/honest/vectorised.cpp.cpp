// honest: gated values kept in the output, and scaled while they are in the cache
// arena: flags -O3 -march=native -fno-math-errno -fno-trapping-math
#include "gated_rms_norm.h"

#include <cmath>

constexpr float LOG2_E = 1.44269504f, LN_2 = 0.69314718f, ROUND = 12582912.0f;

// e^x for x <= 0, and zero below e^-87.7: Taylor's series between whole powers of two.
static inline float exponential(float x) {
    x = x > -88.0f ? x : -88.0f;
    const float whole = x * LOG2_E + ROUND;  // the nearest whole number is in its last bits
    const float r = x - (whole - ROUND) * LN_2;
    float series = r * (1 / 5040.0f) + 1 / 720.0f;
    series = series * r + 1 / 120.0f;
    series = series * r + 1 / 24.0f;
    series = series * r + 1 / 6.0f;
    series = (series * r + 0.5f) * r + 1;
    series = series * r + 1;
    return series * __builtin_bit_cast(float, (__builtin_bit_cast(uint32_t, whole) + 127) << 23);
}

extern "C" int gated_rms_norm(const gated_rms_norm_args* args) {
    const int64_t rows = args->rows, groups = args->groups, cols = args->cols;
#pragma omp parallel for num_threads(arena_threads()) if (rows * groups * cols > 16384)
    for (int64_t group = 0; group < rows * groups; ++group) {
        const float* x = args->x + group * cols;
        const float* gate = args->gate + group * cols;
        const float* weight = args->weight + group % groups * cols;
        float* out = args->out + group * cols;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t col = 0; col < cols; ++col) {
            const float power = exponential(-std::fabs(gate[col]));
            const float y = x[col] * gate[col] * (gate[col] < 0 ? power : 1.0f) / (1 + power);
            sum += y * y;
            out[col] = y;
        }
        const float scale = float(1 / std::sqrt(double(sum) / double(cols) + args->eps));
#pragma omp simd
        for (int64_t col = 0; col < cols; ++col) out[col] *= scale * weight[col];
    }
    return 0;
}
