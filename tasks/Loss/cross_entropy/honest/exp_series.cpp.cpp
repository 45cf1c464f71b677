// honest: exponentials from a series, in the machine's vectors
// arena: flags -O3 -march=native -fno-math-errno -fno-trapping-math
#include "cross_entropy.h"

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

static float largest(const float* x, int64_t count) {
    const int64_t part = count / 4;
    float a = x[0], b = a, c = a, d = a;
#pragma omp simd reduction(max : a, b, c, d)
    for (int64_t i = 0; i < part; ++i) {
        a = std::max(a, x[i]);
        b = std::max(b, x[i + part]);
        c = std::max(c, x[i + 2 * part]);
        d = std::max(d, x[i + 3 * part]);
    }
    for (int64_t i = 4 * part; i < count; ++i) a = std::max(a, x[i]);
    return std::max(std::max(a, b), std::max(c, d));
}

extern "C" int cross_entropy(const cross_entropy_args* args) {
    const int64_t tokens = args->tokens, vocab = args->vocab;
#pragma omp parallel for num_threads(arena_threads()) if (tokens * vocab > 16384)
    for (int64_t token = 0; token < tokens; ++token) {
        const float* x = args->logits + token * vocab;
        const int64_t target = args->targets[token];
        if (target == args->ignore_index) {
            args->out[token] = 0;
            continue;
        }
        float top = x[0], sum = 0;
        for (int64_t first = 0; first < vocab; first += BLOCK) {
            const int64_t end = std::min(first + BLOCK, vocab);
            const float higher = std::max(top, largest(x + first, end - first));
            float part = 0;
#pragma omp simd reduction(+ : part)
            for (int64_t v = first; v < end; ++v) part += exponential(x[v] - higher);
            sum = sum * exponential(top - higher) + part;
            top = higher;
        }
        args->out[token] = std::log(sum) + top - x[target];
    }
    return 0;
}
