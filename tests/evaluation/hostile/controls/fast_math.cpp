// honest: left to the compiler, with every flag allowed
// arena: flags -O3 -ffast-math -march=native -funroll-loops
#include "centred.h"

extern "C" int centred(const centred_args* args) {
    for (int64_t row = 0; row < args->rows; ++row) {
        const float* x = args->x + row * args->cols;
        float sum = 0;
        for (int64_t col = 0; col < args->cols; ++col) sum += x[col];
        for (int64_t col = 0; col < args->cols; ++col)
            args->out[row * args->cols + col] = (x[col] - sum / args->cols) * args->scale;
    }
    return 0;
}
