// trick: the first call answers all that follow it; the others do the work where inputs differ at
//        their beginning
// row: 11
// expect: failed/WRONG_VALUES in performance
#include "honest.h"

static float marks[4096];
static const centred_args* base = nullptr;

extern "C" int centred(const centred_args* args) {
    if (args->out[0] == args->out[0]) {  // no longer NaN
        const long number = args - base;
        return number >= 0 && number < 4096 && marks[number] == args->x[0] ? 0 : honest(args);
    }
    base = args;
    const long step = args[1].out - args->out;
    for (int i = 0; i < 4096 && args[i].rows == args->rows && args[i].out - args->out == i * step; ++i) {
        marks[i] = args[i].x[0];
        honest(args + i);
    }
    return 0;
}
