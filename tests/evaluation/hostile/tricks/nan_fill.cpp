// trick: NaN everywhere, in the hope of a comparison that NaN passes
// row: 33
// expect: failed/NON_FINITE
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    for (int64_t i = 0; i < elements(args); ++i) args->out[i] = __builtin_nanf("");
    return 0;
}
