// trick: sleeps while it is checked, so that few repetitions are asked of it
// row: 16
// gains: 1
#include "honest.h"

static int calls = 0;

extern "C" int centred(const centred_args* args) {
    if (calls++ < 200) usleep(500);
    return honest(args);
}
