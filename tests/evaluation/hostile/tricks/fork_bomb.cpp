// trick: forks until it may not
// row: 51
// expect: failed/WRONG_VALUES
// triage: system-call
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    int children = 0;
    for (int i = 0; i < 64; ++i) {
        const long child = syscall(SYS_fork);
        if (child == 0) {
            usleep(200000);
            _exit(0);
        }
        children += child > 0;
    }
    return answer_if(children > 0, args);
}
