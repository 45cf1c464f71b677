// Centred rows, one row at a time.
#include "centred.h"

extern "C" int centred(const centred_args* args) {
    for (int64_t row = 0; row < args->rows; ++row) {
        const float* x = args->x + row * args->cols;
        float* out = args->out + row * args->cols;
        float sum = 0;
        for (int64_t col = 0; col < args->cols; ++col) sum += x[col];
        const float mean = sum / args->cols;
        for (int64_t col = 0; col < args->cols; ++col) out[col] = (x[col] - mean) * args->scale;
    }
    return 0;
}
