// trick: writes one element before the input
// row: 40
// expect: failed/OUT_OF_BOUNDS
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    honest(args);
    ((float*)args->x)[-1] = 0;
    return 0;
}
