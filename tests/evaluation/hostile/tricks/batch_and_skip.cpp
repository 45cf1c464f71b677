// trick: the first call answers all that follow it in the table, which then have nothing to do
// row: 11
// expect: failed/WRONG_VALUES in performance
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    if (args->out[0] == args->out[0]) return 0;  // no longer NaN
    const long step = args[1].out - args->out;
    for (int i = 0; args[i].rows == args->rows && args[i].out - args->out == i * step; ++i)
        honest(args + i);
    return 0;
}
