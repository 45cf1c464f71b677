// trick: changes inputs only once it is timed, to slow what runs after it
// row: 27
// expect: failed/INPUT_MUTATED
#include "honest.h"

static int calls = 0;

extern "C" int centred(const centred_args* args) {
    honest(args);
    if (calls++ > 600) ((float*)args->x)[elements(args) / 2] = 1e-42f;
    return 0;
}
