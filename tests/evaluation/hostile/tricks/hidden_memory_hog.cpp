// trick: hoards memory in files without a name, which are in nobody's resident set
// row: 51
// expect: failed/OUT_OF_MEMORY|failed/WRONG_VALUES|failed/CRASH
// triage: system-call
// seconds: 10
#include "honest.h"

static const int64_t most = 1200 << 20;

extern "C" int centred(const centred_args* args) {
    static int64_t taken = 0;
    static const char block[1 << 20] = {1};
    while (taken < most) {
        const int file = (int)syscall(SYS_memfd_create, "hog", 0);
        if (file < 0) break;
        for (int i = 0; i < 12 && write(file, block, sizeof block) == (ssize_t)sizeof block; ++i) taken += sizeof block;
    }
    return answer_if(taken >= most, args);
}
