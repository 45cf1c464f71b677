// trick: ends the process with the code of success
// row: 49
// expect: failed/CRASH
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    exit(0);
}
