// honest: two-sided exponential that cannot overflow, reordered by the compiler for the machine's vectors
// arena: flags -O3 -ffast-math -march=native
#include "swiglu.h"

#include <cmath>

extern "C" int swiglu(const swiglu_args* args) {
    const int64_t tokens = args->tokens, hidden = args->hidden;
#pragma omp parallel for num_threads(arena_threads()) if (tokens * hidden > 16384)
    for (int64_t token = 0; token < tokens; ++token) {
        const float* gate = args->x + token * 2 * hidden;
        const float* up = gate + hidden;
        float* out = args->out + token * hidden;
#pragma omp simd
        for (int64_t h = 0; h < hidden; ++h) {
            const float power = std::exp(-std::fabs(gate[h]));
            const float share = (gate[h] < 0 ? power : 1.0f) / (1 + power);
            out[h] = gate[h] * share * up[h];
        }
    }
    return 0;
}
