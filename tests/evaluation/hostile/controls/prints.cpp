// honest: says what it does, and goes backwards
#include "centred.h"

#include <cstdio>

extern "C" int centred(const centred_args* args) {
    static bool told = false;
    if (!told) std::printf("%ld rows of %ld\n", (long)args->rows, (long)args->cols);
    told = true;
    for (int64_t row = args->rows - 1; row >= 0; --row) {
        double sum = 0;
        for (int64_t col = 0; col < args->cols; ++col) sum += args->x[row * args->cols + col];
        for (int64_t col = args->cols - 1; col >= 0; --col)
            args->out[row * args->cols + col] = (float)(args->x[row * args->cols + col] - sum / args->cols) * args->scale;
    }
    return 0;
}
