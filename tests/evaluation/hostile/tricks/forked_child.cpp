// trick: answers at once and leaves the work to a child process
// row: 2
// expect: failed/STALE_OUTPUT
// triage: system-call
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    if (syscall(SYS_fork) == 0) {
        usleep(3000);
        honest(args);
        _exit(0);
    }
    return 0;
}
