// trick: writes one element past the output only once it is timed
// row: 40
// expect: failed/OUT_OF_BOUNDS
#include "honest.h"

static int calls = 0;

extern "C" int centred(const centred_args* args) {
    honest(args);
    if (calls++ > 600) args->out[elements(args)] = 0;
    return 0;
}
