// Scaled rows, one element at a time.
#include "scaled.h"

extern "C" int scaled(const scaled_args* args) {
    for (int64_t row = 0; row < args->rows; ++row)
        for (int64_t col = 0; col < args->cols; ++col) {
            const int64_t at = row * args->cols + col;
            args->out[at] = args->x[at] * args->weight[col] + args->shift;
        }
    return 0;
}
