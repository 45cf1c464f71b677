// honest: 4 x 32 results kept in registers over the whole depth, b packed once per panel
// arena: flags -O3 -ffast-math -march=native
#include "matmul.h"

#include <algorithm>
#include <vector>

constexpr int64_t HEIGHT = 4, WIDTH = 32;

static void panel(const matmul_args* args, const float* b, int64_t top, int64_t left) {
    const int64_t rows = std::min(HEIGHT, args->m - top), cols = std::min(WIDTH, args->n - left);
    float sums[HEIGHT][WIDTH] = {};
    const float* a[HEIGHT];
    for (int64_t i = 0; i < HEIGHT; ++i) a[i] = args->a + (top + std::min(i, rows - 1)) * args->k;
    for (int64_t l = 0; l < args->k; ++l)
        for (int64_t i = 0; i < HEIGHT; ++i)
            for (int64_t j = 0; j < WIDTH; ++j) sums[i][j] += a[i][l] * b[l * WIDTH + j];
    for (int64_t i = 0; i < rows; ++i)
        std::copy_n(sums[i], cols, args->out + (top + i) * args->n + left);
}

extern "C" int matmul(const matmul_args* args) {
    const int64_t m = args->m, n = args->n, k = args->k;
#pragma omp parallel for num_threads(arena_threads()) if (m * n * k > 262144)
    for (int64_t left = 0; left < n; left += WIDTH) {
        std::vector<float> b(k * WIDTH);
        for (int64_t l = 0; l < k; ++l)
            std::copy_n(args->b + l * n + left, std::min(WIDTH, n - left), b.data() + l * WIDTH);
        for (int64_t top = 0; top < m; top += HEIGHT) panel(args, b.data(), top, left);
    }
    return 0;
}
