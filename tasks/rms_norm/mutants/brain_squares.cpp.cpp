// mutant: rounds the squares to bfloat16 before they are added
// expect: WRONG_VALUES
// arena: flags -O2
#include "rms_norm.h"

#include <cmath>
#include <cstdint>
#include <cstring>

static float brain(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    bits = (bits + 0x8000) & 0xffff0000;
    std::memcpy(&value, &bits, 4);
    return value;
}

// Rows are shared among threads from this many elements on.
#define PARALLEL_FROM 65536

// Independent partial sums, so that one addition need not wait for the last.
#define LANES 1

static float sum_of_squares(const float* x, int64_t n) {
    float sums[LANES] = {};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int lane = 0; lane < LANES; ++lane) sums[lane] += brain(x[i + lane] * x[i + lane]);
    for (; i < n; ++i) sums[0] += x[i] * x[i];
    float sum = 0;
    for (float part : sums) sum += part;
    return sum;
}

extern "C" int rms_norm(const rms_norm_args* args) {
    const int64_t rows = args->rows, cols = args->cols;
    const float* weight = args->weight;

#pragma omp parallel for num_threads(arena_threads()) if (rows * cols >= PARALLEL_FROM)
    for (int64_t row = 0; row < rows; ++row) {
        const float* x = args->x + row * cols;
        float* out = args->out + row * cols;
        const float scale = 1 / std::sqrt(sum_of_squares(x, cols) / cols + args->eps);
        for (int64_t col = 0; col < cols; ++col) out[col] = x[col] * scale * weight[col];
    }
    return 0;
}
