// honest: mean, centred squares and output of a group while it is in the cache
// arena: flags -O3 -march=native -fno-math-errno -fno-trapping-math
#include "group_norm_silu.h"

#include <algorithm>
#include <cmath>

constexpr int64_t BLOCK = 4096;

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

// The sum of `part(first, count)` over blocks, which keeps the roundings of long sums apart.
template <typename Part>
static float in_blocks(int64_t count, Part part) {
    float sum = 0;
    for (int64_t first = 0; first < count; first += BLOCK)
        sum += part(first, std::min(BLOCK, count - first));
    return sum;
}

extern "C" int group_norm_silu(const group_norm_silu_args* args) {
    const int64_t groups = args->groups, width = args->width, pixels = args->pixels;
    const int64_t size = width * pixels, count = args->batch * groups;
#pragma omp parallel for num_threads(arena_threads()) if (count * size > 16384)
    for (int64_t group = 0; group < count; ++group) {
        const float* x = args->x + group * size;
        const float mean = in_blocks(size, [x](int64_t first, int64_t length) {
            return sum_of(x + first, length);
        }) / float(size);
        const float variance = in_blocks(size, [x, mean](int64_t first, int64_t length) {
            return sum_of_squares(x + first, length, mean);
        }) / float(size);
        const float inverse = 1 / std::sqrt(variance + args->eps);
        for (int64_t channel = 0; channel < width; ++channel) {
            const float* in = x + channel * pixels;
            float* out = args->out + group * size + channel * pixels;
            const float scale = inverse * args->weight[group % groups * width + channel];
            const float bias = args->bias[group % groups * width + channel];
#pragma omp simd
            for (int64_t pixel = 0; pixel < pixels; ++pixel) {
                const float y = (in[pixel] - mean) * scale + bias;
                const float power = exponential(-std::fabs(y));
                out[pixel] = y * ((y < 0 ? power : 1.0f) / (1 + power));
            }
        }
    }
    return 0;
}
