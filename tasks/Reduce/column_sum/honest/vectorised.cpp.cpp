// honest: eight rows added at once, and columns or many rows shared among threads
// arena: flags -O3 -march=native -fno-math-errno -fno-trapping-math
#include "column_sum.h"

#include <algorithm>
#include <vector>

constexpr int64_t BLOCK = 256, TILE = 512, NARROW = 128;

// Sums of `width` columns, at most TILE, of rows that begin `stride` apart.
static void add_up(const float* x, int64_t rows, int64_t stride, int64_t width, float* out) {
    std::fill_n(out, width, 0.0f);
    for (int64_t first = 0; first < rows; first += BLOCK) {
        float sums[TILE];
        std::fill_n(sums, width, 0.0f);
        const int64_t end = std::min(first + BLOCK, rows);
        int64_t row = first;
        for (; row + 8 <= end; row += 8) {
            const float *a = x + row * stride, *b = a + 4 * stride;
#pragma omp simd
            for (int64_t col = 0; col < width; ++col)
                sums[col] += ((a[col] + a[col + stride]) +
                              (a[col + 2 * stride] + a[col + 3 * stride])) +
                             ((b[col] + b[col + stride]) +
                              (b[col + 2 * stride] + b[col + 3 * stride]));
        }
        for (; row < end; ++row)
            for (int64_t col = 0; col < width; ++col) sums[col] += x[row * stride + col];
        for (int64_t col = 0; col < width; ++col) out[col] += sums[col];
    }
}

// Every thread adds up some rows. Several short rows count as one of up to 2 * NARROW elements.
static void share_rows(const column_sum_args* args, int64_t threads) {
    const int64_t cols = args->cols, fold = std::max<int64_t>(1, 2 * NARROW / cols);
    const int64_t width = fold * cols, rows = args->rows / fold;
    std::vector<float> sums(threads * width);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int64_t thread = 0; thread < threads; ++thread) {
        const int64_t first = rows * thread / threads, end = rows * (thread + 1) / threads;
        add_up(args->x + first * width, end - first, width, width, sums.data() + thread * width);
    }
    const int64_t done = rows * fold;
    add_up(args->x + done * cols, args->rows - done, cols, cols, args->out);
    for (int64_t part = 0; part < threads * fold; ++part)
        for (int64_t col = 0; col < cols; ++col) args->out[col] += sums[part * cols + col];
}

extern "C" int column_sum(const column_sum_args* args) {
    const int64_t rows = args->rows, cols = args->cols;
    const int64_t threads = rows * cols > 32768 ? arena_threads() : 1;
    if (cols < NARROW * threads && cols <= TILE) {
        share_rows(args, threads);
        return 0;
    }
    const int64_t tiles = (cols + TILE * threads - 1) / (TILE * threads) * threads;
#pragma omp parallel for num_threads(threads)
    for (int64_t tile = 0; tile < tiles; ++tile) {
        const int64_t first = cols * tile / tiles, end = cols * (tile + 1) / tiles;
        add_up(args->x + first, rows, cols, end - first, args->out + first);
    }
    return 0;
}
