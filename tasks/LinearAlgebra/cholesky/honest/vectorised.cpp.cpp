// honest: four rows of the transposed factor at a time, in registers over all rows before
// arena: flags -O3 -march=native
#include "cholesky.h"

#include <algorithm>
#include <cmath>
#include <vector>

constexpr int64_t HEIGHT = 4;
#ifdef __AVX512F__
constexpr int64_t WIDTH = 32;
#else
constexpr int64_t WIDTH = 16;
#endif

/* Factors of four rows: reciprocals of the diagonal, and what is beside it. */
typedef float Pivots[HEIGHT][HEIGHT];

/* Compute columns of four rows of `u`, which hold the matrix, from the rows above. */
template <bool DIAGONAL>
static void tile(float* u, int64_t stride, int64_t top, int64_t left, Pivots& pivots) {
    float sums[HEIGHT][WIDTH] = {};
    for (int64_t k = 0; k < top; ++k) {
        const float* above = u + k * stride;
        for (int64_t i = 0; i < HEIGHT; ++i)
#pragma omp simd
            for (int64_t c = 0; c < WIDTH; ++c) sums[i][c] += above[top + i] * above[left + c];
    }
    float rest[HEIGHT][WIDTH];
    float* block = u + top * stride + left;
    for (int64_t i = 0; i < HEIGHT; ++i) {
        for (int64_t c = 0; c < WIDTH; ++c) rest[i][c] = block[i * stride + c] - sums[i][c];
        for (int64_t j = 0; j < i; ++j)
            for (int64_t c = 0; c < WIDTH; ++c) rest[i][c] -= pivots[j][i] * rest[j][c];
        const float* corner = rest[i] + top - left;
        if (DIAGONAL) pivots[i][i] = 1 / std::sqrt(corner[i]);
        for (int64_t c = 0; c < WIDTH; ++c) rest[i][c] *= pivots[i][i];
        if (DIAGONAL) std::copy(corner + i + 1, corner + HEIGHT, pivots[i] + i + 1);
        std::copy_n(rest[i], WIDTH, block + i * stride);
    }
}

/* Replace a symmetric matrix by its upper factor. What is below the diagonal is of no use. */
static void factor(float* u, int64_t n, int64_t stride) {
    for (int64_t top = 0; top < n; top += HEIGHT) {
        Pivots pivots;
        const int64_t first = top / WIDTH * WIDTH;
        tile<true>(u, stride, top, first, pivots);
        for (int64_t left = first + WIDTH; left < n; left += WIDTH)
            tile<false>(u, stride, top, left, pivots);
    }
}

static void store_transposed(const float* u, int64_t stride, int64_t n, float* l) {
    for (int64_t first = 0; first < n; first += WIDTH)
        for (int64_t i = first; i < n; ++i)
            for (int64_t j = first; j < std::min(first + WIDTH, n); ++j) l[i * n + j] = u[j * stride + i];
    for (int64_t i = 0; i < n; ++i) std::fill(l + i * n + i + 1, l + (i + 1) * n, 0.0f);
}

extern "C" int cholesky(const cholesky_args* args) {
    const int64_t n = args->n, size = (n + WIDTH - 1) / WIDTH * WIDTH;
    const int64_t stride = size + WIDTH;  // no power of two, which would crowd one set of the cache
#pragma omp parallel num_threads(arena_threads()) if (args->batch * n * n * n > 131072)
    {
        // The identity beside the matrix changes nothing, and is left as it is.
        std::vector<float> u(size * stride);
        for (int64_t i = n; i < size; ++i) u[i * stride + i] = 1;
#pragma omp for
        for (int64_t index = 0; index < args->batch; ++index) {
            for (int64_t i = 0; i < n; ++i)
                std::copy_n(args->a + (index * n + i) * n, n, u.data() + i * stride);
            factor(u.data(), n, stride);
            store_transposed(u.data(), stride, n, args->l + index * n * n);
        }
    }
    return 0;
}
