// honest: a static buffer between two passes
#include "centred.h"

static double means[1 << 16];

extern "C" int centred(const centred_args* args) {
    for (int64_t row = 0; row < args->rows; ++row) {
        means[row] = 0;
        for (int64_t col = 0; col < args->cols; ++col) means[row] += args->x[row * args->cols + col];
        means[row] /= args->cols;
    }
    for (int64_t i = 0; i < args->rows * args->cols; ++i)
        args->out[i] = (float)((args->x[i] - means[i / args->cols]) * args->scale);
    return 0;
}
