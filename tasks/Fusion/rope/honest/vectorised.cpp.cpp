// honest: halves as separate streams for the machine's vectors, fused multiply-adds
// arena: flags -O3 -ffast-math -march=native
#include "rope.h"

static void rotate(const float* x, float* out, const rope_args* args, int64_t heads) {
    const int64_t half = args->half_dim, pairs = args->tokens * heads;
#pragma omp parallel for num_threads(arena_threads()) if (pairs * half > 16384)
    for (int64_t pair = 0; pair < pairs; ++pair) {
        const float *first = x + pair * 2 * half, *second = first + half;
        const float *cos = args->cos + pair / heads * half, *sin = args->sin + pair / heads * half;
        float *left = out + pair * 2 * half, *right = left + half;
#pragma omp simd
        for (int64_t i = 0; i < half; ++i) {
            left[i] = first[i] * cos[i] - second[i] * sin[i];
            right[i] = second[i] * cos[i] + first[i] * sin[i];
        }
    }
}

extern "C" int rope(const rope_args* args) {
    rotate(args->q, args->q_out, args, args->heads);
    rotate(args->k, args->k_out, args, args->kv_heads);
    return 0;
}
