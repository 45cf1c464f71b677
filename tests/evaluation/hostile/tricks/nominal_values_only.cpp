// trick: skips the mean where a look at the first row says that it is nearly zero
// row: 34
// expect: failed/WRONG_VALUES
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    float sum = 0;
    for (int64_t col = 0; col < args->cols; ++col) sum += args->x[col];
    if (sum / args->cols > 0.5f || sum / args->cols < -0.5f) return honest(args);
    for (int64_t i = 0; i < elements(args); ++i) args->out[i] = args->x[i] * args->scale;
    return 0;
}
