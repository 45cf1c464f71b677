// honest: an exponential times a polynomial for the tail, elements shared among threads
// arena: flags -O3 -ffast-math -march=native
#include "gelu.h"

#include <cmath>

// The probability that a normal variable is above `size`, which is not negative; within 4e-8.
static inline float tail(float size) {
    const float t = 1 / (1 + 0.4f * size);
    // A weighted least-squares fit, its largest error made small, of the tail over the exponential.
    float ratio = 0.0572589647f;
    ratio = ratio * t - 0.259250638f;
    ratio = ratio * t + 0.349423733f;
    ratio = ratio * t + 0.00236710396f;
    ratio = ratio * t + 0.195341292f;
    ratio = ratio * t + 0.154583218f;
    ratio = ratio * t + 0.000276361233f;
    return ratio * std::exp(-0.5f * size * size);
}

extern "C" int gelu(const gelu_args* args) {
    const int64_t count = args->rows * args->cols;
    const float* x = args->x;
    float* out = args->out;
#pragma omp parallel for simd num_threads(arena_threads()) if (parallel : count > 32768)
    for (int64_t i = 0; i < count; ++i) {
        const float above = tail(std::fabs(x[i]));
        out[i] = x[i] * (x[i] < 0 ? above : 1 - above);
    }
    return 0;
}
