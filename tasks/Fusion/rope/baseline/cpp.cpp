// Rotary embedding, token by token and head by head: both halves of a head turned together.
// arena: tune-flags "-O2" "-O3" "-O3 -march=native" "-O3 -ffast-math -march=native" "-O3 -march=native -mprefer-vector-width=512"
// arena: flags -O2
#include "rope.h"

// Tokens are shared among threads from this many elements of queries on.
// arena: tune PARALLEL_FROM 0 4096 32768 262144
#define PARALLEL_FROM 32768

// Pairs that are turned before the next are looked at.
// arena: tune UNROLL 1 2 4 8 16
#define UNROLL 1

static void turn(const float* x, const float* cos, const float* sin, float* out, int64_t half) {
    const float first = x[0], second = x[half];
    out[0] = first * *cos - second * *sin;
    out[half] = second * *cos + first * *sin;
}

static void rotate(
    const float* x, const float* cos, const float* sin, float* out, int64_t heads, int64_t half) {
    for (int64_t head = 0; head < heads; ++head, x += 2 * half, out += 2 * half) {
        int64_t i = 0;
        for (; i + UNROLL <= half; i += UNROLL)
            for (int64_t j = i; j < i + UNROLL; ++j) turn(x + j, cos + j, sin + j, out + j, half);
        for (; i < half; ++i) turn(x + i, cos + i, sin + i, out + i, half);
    }
}

extern "C" int rope(const rope_args* args) {
    const int64_t tokens = args->tokens, half = args->half_dim;
    const int64_t q_size = args->heads * 2 * half, k_size = args->kv_heads * 2 * half;

#pragma omp parallel for num_threads(arena_threads()) if (tokens * q_size >= PARALLEL_FROM)
    for (int64_t t = 0; t < tokens; ++t) {
        const float *cos = args->cos + t * half, *sin = args->sin + t * half;
        rotate(args->q + t * q_size, cos, sin, args->q_out + t * q_size, args->heads, half);
        rotate(args->k + t * k_size, cos, sin, args->k_out + t * k_size, args->kv_heads, half);
    }
    return 0;
}
