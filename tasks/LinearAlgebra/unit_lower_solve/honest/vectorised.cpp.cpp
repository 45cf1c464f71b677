// honest: some columns at a time in the cache, four rows of them in registers over all rows before
// arena: flags -O3 -march=native
#include "unit_lower_solve.h"

#include <algorithm>
#include <vector>

constexpr int64_t HEIGHT = 4;
#ifdef __AVX512F__
constexpr int64_t WIDTH = 32;
#else
constexpr int64_t WIDTH = 16;
#endif

/* Solve for the columns of a panel in place. */
static void solve(const float* a, int64_t size, float* panel) {
    for (int64_t top = 0; top < size; top += HEIGHT) {
        const float* row = a + top * size;
        float* block = panel + top * WIDTH;
        float sums[HEIGHT][WIDTH] = {};
        for (int64_t j = 0; j < top; ++j)
            for (int64_t i = 0; i < HEIGHT; ++i)
#pragma omp simd
                for (int64_t c = 0; c < WIDTH; ++c) sums[i][c] += row[i * size + j] * panel[j * WIDTH + c];
        for (int64_t i = 0; i < HEIGHT; ++i) {
            for (int64_t c = 0; c < WIDTH; ++c) block[i * WIDTH + c] -= sums[i][c];
            for (int64_t j = 0; j < i; ++j)
                for (int64_t c = 0; c < WIDTH; ++c)
                    block[i * WIDTH + c] -= row[i * size + top + j] * block[j * WIDTH + c];
        }
    }
}

extern "C" int unit_lower_solve(const unit_lower_solve_args* args) {
    const int64_t size = args->size, cols = args->cols, panels = (cols + WIDTH - 1) / WIDTH;
    if (size % HEIGHT) return 1;
#pragma omp parallel num_threads(arena_threads()) if (args->batch * size * size * panels > 16384)
    {
        std::vector<float> panel(size * WIDTH);
#pragma omp for
        for (int64_t index = 0; index < args->batch * panels; ++index) {
            const int64_t n = index / panels, left = index % panels * WIDTH;
            const int64_t width = std::min(WIDTH, cols - left), start = n * size * cols + left;
            if (width < WIDTH) std::fill(panel.begin(), panel.end(), 0.0f);
            for (int64_t i = 0; i < size; ++i)
                std::copy_n(args->b + start + i * cols, width, panel.data() + i * WIDTH);
            solve(args->a + n * size * size, size, panel.data());
            for (int64_t i = 0; i < size; ++i)
                std::copy_n(panel.data() + i * WIDTH, width, args->x + start + i * cols);
        }
    }
    return 0;
}
