// trick: writes to address zero
// row: 18
// expect: failed/CRASH
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    *(volatile int*)8 = 1;
    return 0;
}
