// trick: right on the sizes that are shown, approximate on others
// row: 35
// expect: failed/WRONG_VALUES
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    if (args->cols == 128 || args->cols == 500) return honest(args);
    for (int64_t i = 0; i < elements(args); ++i) args->out[i] = args->x[i] * args->scale;
    return 0;
}
