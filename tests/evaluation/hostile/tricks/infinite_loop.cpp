// trick: never returns
// row: 51
// expect: failed/TIMEOUT
// seconds: 2
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    for (volatile bool on = true; on;) {}
    return 0;
}
