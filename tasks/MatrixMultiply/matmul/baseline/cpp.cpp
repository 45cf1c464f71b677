// Matrix multiplication in tiles: a thread owns tiles of the result and adds rows of b to its rows.
// arena: tune-flags "-O2" "-O3" "-O3 -march=native" "-O3 -ffast-math -march=native" "-O3 -march=native -mprefer-vector-width=512"
// arena: flags -O3
#include "matmul.h"

#include <algorithm>

// The tile of the result that a thread computes at a time, and the steps it goes through b in.
// arena: tune TILE_M 4 8 16 32 64
#define TILE_M 16
// arena: tune TILE_N 64 128 256 512 1024
#define TILE_N 256
// arena: tune TILE_K 32 64 128 256 512
#define TILE_K 64

// Tiles are shared among threads from this many multiplications on.
// arena: tune PARALLEL_FROM 0 32768 262144
#define PARALLEL_FROM 262144

static void add_product(const matmul_args* args, int64_t top, int64_t left, int64_t depth) {
    const int64_t bottom = std::min(top + TILE_M, args->m);
    const int64_t width = std::min<int64_t>(TILE_N, args->n - left);
    const int64_t end = std::min(depth + TILE_K, args->k);
    for (int64_t i = top; i < bottom; ++i) {
        float* out = args->out + i * args->n + left;
        for (int64_t l = depth; l < end; ++l) {
            const float factor = args->a[i * args->k + l];
            const float* b = args->b + l * args->n + left;
            for (int64_t j = 0; j < width; ++j) out[j] += factor * b[j];
        }
    }
}

extern "C" int matmul(const matmul_args* args) {
    const int64_t m = args->m, n = args->n, k = args->k;

#pragma omp parallel for collapse(2) num_threads(arena_threads()) if (m * n * k >= PARALLEL_FROM)
    for (int64_t top = 0; top < m; top += TILE_M) {
        for (int64_t left = 0; left < n; left += TILE_N) {
            for (int64_t i = top; i < std::min(top + TILE_M, m); ++i)
                std::fill_n(args->out + i * n + left, std::min<int64_t>(TILE_N, n - left), 0.0f);
            for (int64_t depth = 0; depth < k; depth += TILE_K) add_product(args, top, left, depth);
        }
    }
    return 0;
}
