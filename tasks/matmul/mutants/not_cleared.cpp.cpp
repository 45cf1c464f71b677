// mutant: adds to the result without clearing it first
// arena: flags -O3
#include "matmul.h"

#include <algorithm>

// The tile of the result that a thread computes at a time, and the steps it goes through b in.
#define TILE_M 16
#define TILE_N 256
#define TILE_K 64

// Tiles are shared among threads from this many multiplications on.
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
            for (int64_t depth = 0; depth < k; depth += TILE_K) add_product(args, top, left, depth);
        }
    }
    return 0;
}
