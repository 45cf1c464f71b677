// honest: one loop over a token with one exponential an element, which cannot overflow
// arena: flags -O3 -march=native -fno-math-errno -fno-trapping-math
#include "swiglu_backward.h"

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

extern "C" int swiglu_backward(const swiglu_backward_args* args) {
    const int64_t tokens = args->tokens, hidden = args->hidden;
#pragma omp parallel for num_threads(arena_threads()) if (tokens * hidden > 16384)
    for (int64_t token = 0; token < tokens; ++token) {
        const float *gate = args->x + token * 2 * hidden, *up = gate + hidden;
        const float* gradient = args->gradient + token * hidden;
        float* out = args->out + token * hidden;
        float *gate_gradient = args->x_gradient + token * 2 * hidden;
        float *up_gradient = gate_gradient + hidden;
#pragma omp simd
        for (int64_t h = 0; h < hidden; ++h) {
            const float power = exponential(-std::fabs(gate[h]));
            const float large = 1 / (1 + power), small = power * large;
            const float share = gate[h] < 0 ? small : large, rest = gate[h] < 0 ? large : small;
            const float silu = gate[h] * share;
            out[h] = silu * up[h];
            up_gradient[h] = gradient[h] * silu;
            gate_gradient[h] = gradient[h] * up[h] * (share * (1 + gate[h] * rest));
        }
    }
    return 0;
}
