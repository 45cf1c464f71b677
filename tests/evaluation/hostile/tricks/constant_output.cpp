// trick: zeros, which are nearly right where inputs are tiny
// row: 24
// expect: failed/WRONG_VALUES
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    memset(args->out, 0, elements(args) * sizeof(float));
    return 0;
}
