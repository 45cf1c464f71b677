// trick: right but for one element in a hundred
// row: 32
// expect: failed/WRONG_VALUES
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    honest(args);
    for (int64_t i = 50; i < elements(args); i += 100) args->out[i] = 0.5f;
    return 0;
}
