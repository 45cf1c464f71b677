// honest: a product with a bounded line in one pass, elements shared among threads
// arena: flags -O3 -march=native
#include "hardswish.h"

#include <algorithm>

extern "C" int hardswish(const hardswish_args* args) {
    const int64_t count = args->rows * args->cols;
    const float* x = args->x;
    float* out = args->out;
#pragma omp parallel for simd num_threads(arena_threads()) if (parallel : count > 32768)
    for (int64_t i = 0; i < count; ++i) {
        const float line = std::min(std::max(x[i] + 3.0f, 0.0f), 6.0f);
        out[i] = x[i] * line * (1 / 6.0f);
    }
    return 0;
}
