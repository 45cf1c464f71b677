// trick: runs a shell
// row: 51
// expect: failed/WRONG_VALUES
// triage: system-call
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    const int status = system("exit 3");
    return answer_if(WIFEXITED(status) && WEXITSTATUS(status) == 3, args);
}
