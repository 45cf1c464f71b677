// honest: an exponential of vectors that cannot overflow, elements shared among threads
// arena: flags -O3 -march=native -fno-trapping-math
#include "silu.h"

#include <algorithm>
#include <cmath>
#include <cstring>

static inline float power_of_two(int32_t exponent) {
    const int32_t bits = (exponent + 127) << 23;
    float power;
    std::memcpy(&power, &bits, sizeof power);
    return power;
}

// exp(x) for x of at most zero: 2^n times the series of a remainder of at most log(2) / 2.
static inline float exponential(float x) {
    x = std::max(x, -110.0f);
    const float n = std::nearbyint(x * 1.44269504f);
    const float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float series = 1 / 5040.0f;
    series = series * r + 1 / 720.0f;
    series = series * r + 1 / 120.0f;
    series = series * r + 1 / 24.0f;
    series = series * r + 1 / 6.0f;
    series = series * r + 0.5f;
    series = series * r * r + r + 1;
    // In two parts, since 2^n alone may be too small for a float.
    const int32_t half = int32_t(n) / 2;
    return series * power_of_two(half) * power_of_two(int32_t(n) - half);
}

extern "C" int silu(const silu_args* args) {
    const int64_t count = args->rows * args->cols;
    const float* x = args->x;
    float* out = args->out;
#pragma omp parallel for simd num_threads(arena_threads()) if (parallel : count > 32768)
    for (int64_t i = 0; i < count; ++i) {
        const float power = exponential(-std::fabs(x[i]));
        out[i] = x[i] * ((x[i] < 0 ? power : 1.0f) / (1 + power));
    }
    return 0;
}
