// trick: does nothing and reports success
// row: 23
// expect: failed/STALE_OUTPUT
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    return 0;
}
