// trick: leaves the last element to what was there before
// row: 23
// expect: failed/STALE_OUTPUT
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    const float kept = args->out[elements(args) - 1];
    honest(args);
    args->out[elements(args) - 1] = kept;
    return 0;
}
