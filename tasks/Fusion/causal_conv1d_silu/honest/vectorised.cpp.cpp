// honest: one loop for each number of taps, channels shared among threads
// arena: flags -O3 -march=native -fno-math-errno -fno-trapping-math
#include "causal_conv1d_silu.h"

#include <algorithm>
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

static inline float silu(float y) {
    const float power = exponential(-std::fabs(y));
    return y * ((y < 0 ? power : 1.0f) / (1 + power));
}

// One channel with its TAPS weights; what comes before its beginning counts as zero.
template <int64_t TAPS>
static void channel(const float* x, const float* weight, float bias, float* out, int64_t length) {
    for (int64_t t = 0; t < std::min(TAPS - 1, length); ++t) {
        float y = bias;
        for (int64_t tap = TAPS - 1 - t; tap < TAPS; ++tap)
            y += weight[tap] * x[t + tap - (TAPS - 1)];
        out[t] = silu(y);
    }
    float taps[TAPS];
    std::copy_n(weight, TAPS, taps);
#pragma omp simd
    for (int64_t t = TAPS - 1; t < length; ++t) {
        float y = bias;
        for (int64_t tap = 0; tap < TAPS; ++tap) y += taps[tap] * x[t + tap - (TAPS - 1)];
        out[t] = silu(y);
    }
}

extern "C" int causal_conv1d_silu(const causal_conv1d_silu_args* args) {
    const int64_t count = args->batch * args->channels, length = args->length, taps = args->taps;
    const auto convolve = taps == 2 ? channel<2> : taps == 3 ? channel<3> : channel<4>;
#pragma omp parallel for num_threads(arena_threads()) if (count * length > 16384)
    for (int64_t c = 0; c < count; ++c)
        convolve(args->x + c * length, args->weight + c % args->channels * taps,
                 args->bias[c % args->channels], args->out + c * length, length);
    return 0;
}
