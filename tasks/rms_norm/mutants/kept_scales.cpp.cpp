// mutant: keeps the scale of every row from the first call of that shape
// expect: WRONG_VALUES
// arena: flags -O2
#include "rms_norm.h"

#include <cmath>
#include <map>

// Independent partial sums, so that one addition need not wait for the last.
#define LANES 1

static float sum_of_squares(const float* x, int64_t n) {
    float sums[LANES] = {};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int lane = 0; lane < LANES; ++lane) sums[lane] += x[i + lane] * x[i + lane];
    for (; i < n; ++i) sums[0] += x[i] * x[i];
    float sum = 0;
    for (float part : sums) sum += part;
    return sum;
}

extern "C" int rms_norm(const rms_norm_args* args) {
    const int64_t rows = args->rows, cols = args->cols;
    const float* weight = args->weight;

    for (int64_t row = 0; row < rows; ++row) {
        const float* x = args->x + row * cols;
        float* out = args->out + row * cols;
        static std::map<int64_t, float> scales;
        const int64_t key = row * 100'000 + cols;
        if (!scales.count(key))
            scales[key] = 1 / std::sqrt(sum_of_squares(x, cols) / cols + args->eps);
        const float scale = scales[key];
        for (int64_t col = 0; col < cols; ++col) out[col] = x[col] * scale * weight[col];
    }
    return 0;
}
