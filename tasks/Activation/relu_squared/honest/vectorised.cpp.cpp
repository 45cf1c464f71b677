// honest: relu and square in one pass, elements shared among threads
// arena: flags -O3 -march=native
#include "relu_squared.h"

extern "C" int relu_squared(const relu_squared_args* args) {
    const int64_t count = args->rows * args->cols;
    const float* x = args->x;
    float* out = args->out;
#pragma omp parallel for simd num_threads(arena_threads()) if (parallel : count > 32768)
    for (int64_t i = 0; i < count; ++i) {
        const float positive = x[i] > 0 ? x[i] : 0;
        out[i] = positive * positive;
    }
    return 0;
}
