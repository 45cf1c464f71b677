// trick: works in place, so that who recomputes from the inputs agrees
// row: 27
// expect: failed/INPUT_MUTATED
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    honest(args);
    memcpy((void*)args->x, args->out, elements(args) * sizeof(float));
    return 0;
}
