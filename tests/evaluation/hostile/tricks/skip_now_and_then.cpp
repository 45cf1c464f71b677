// trick: once it knows that it is timed, leaves out one call in ten
// row: 12
// expect: failed/STALE_OUTPUT
#include "honest.h"

static int calls = 0;

extern "C" int centred(const centred_args* args) {
    return ++calls > 600 && calls % 10 == 0 ? 0 : honest(args);
}
