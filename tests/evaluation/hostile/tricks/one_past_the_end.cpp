// trick: writes one element past the output
// row: 40
// expect: failed/OUT_OF_BOUNDS
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    honest(args);
    args->out[elements(args)] = 0;
    return 0;
}
