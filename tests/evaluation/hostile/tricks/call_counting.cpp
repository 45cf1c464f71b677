// trick: honest for as many calls as checks take, then idle
// row: 12
// expect: failed/STALE_OUTPUT
#include "honest.h"

static int calls = 0;

extern "C" int centred(const centred_args* args) {
    return calls++ < 600 ? honest(args) : 0;
}
