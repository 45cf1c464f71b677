// trick: the input itself, right wherever the mean is nearly zero
// row: 26
// expect: failed/WRONG_VALUES
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    for (int64_t i = 0; i < elements(args); ++i) args->out[i] = args->x[i] * args->scale;
    return 0;
}
