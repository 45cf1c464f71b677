// trick: ends the process with the code of success while it is loaded
// row: 49
// expect: failed/CRASH
#include "honest.h"

__attribute__((constructor)) static void leave() { _exit(0); }

extern "C" int centred(const centred_args* args) {
    return 0;
}
