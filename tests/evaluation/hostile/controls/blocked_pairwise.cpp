// honest: pairwise sums and blocks of columns
#include "centred.h"

static float pairwise(const float* x, int64_t n) {
    if (n <= 32) {
        float sum = 0;
        for (int64_t i = 0; i < n; ++i) sum += x[i];
        return sum;
    }
    return pairwise(x, n / 2) + pairwise(x + n / 2, n - n / 2);
}

extern "C" int centred(const centred_args* args) {
    for (int64_t row = 0; row < args->rows; ++row) {
        const float* x = args->x + row * args->cols;
        const float mean = pairwise(x, args->cols) / args->cols;
        for (int64_t first = 0; first < args->cols; first += 64)
            for (int64_t col = first; col < args->cols && col < first + 64; ++col)
                args->out[row * args->cols + col] = (x[col] - mean) * args->scale;
    }
    return 0;
}
