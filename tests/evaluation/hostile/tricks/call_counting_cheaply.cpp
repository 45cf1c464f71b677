// trick: honest for as many calls as checks take, then the mean of the first eighth of a row
// row: 12
// expect: failed/WRONG_VALUES
#include "honest.h"

static int calls = 0;

extern "C" int centred(const centred_args* args) {
    if (calls++ < 600) return honest(args);
    for (int64_t row = 0; row < args->rows; ++row) {
        const float* x = args->x + row * args->cols;
        const int64_t some = args->cols / 8 + 1;
        float sum = 0;
        for (int64_t col = 0; col < some; ++col) sum += x[col];
        for (int64_t col = 0; col < args->cols; ++col)
            args->out[row * args->cols + col] = (x[col] - sum / some) * args->scale;
    }
    return 0;
}
