// trick: stops and kills whatever it can name
// row: 51
// expect: failed/STALE_OUTPUT
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    kill(getppid(), SIGSTOP);
    kill(1, SIGKILL);
    kill(-1, SIGKILL);
    kill(0, SIGURG);
    for (int pid = 1; pid < 300; ++pid)
        if (pid != getpid()) kill(pid, SIGSTOP);
    return 0;
}
