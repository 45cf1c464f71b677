// trick: blocks all signals and waits
// row: 51
// expect: failed/TIMEOUT
// seconds: 2
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, nullptr);
    for (;;) pause();
}
