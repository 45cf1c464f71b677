// trick: returns an error
// row: 18
// expect: failed/CALL_ERROR
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    honest(args);
    return 7;
}
