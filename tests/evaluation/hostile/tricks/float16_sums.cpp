// trick: adds up in half precision
// row: 30
// expect: failed/WRONG_VALUES
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    for (int64_t row = 0; row < args->rows; ++row) {
        const float* x = args->x + row * args->cols;
        _Float16 sum = 0;
        for (int64_t col = 0; col < args->cols; ++col) sum += (_Float16)(x[col] / 64);
        const float mean = (float)sum * 64 / args->cols;
        for (int64_t col = 0; col < args->cols; ++col)
            args->out[row * args->cols + col] = (x[col] - mean) * args->scale;
    }
    return 0;
}
