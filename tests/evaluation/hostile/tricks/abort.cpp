// trick: aborts
// row: 18
// expect: failed/CRASH
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    abort();
}
