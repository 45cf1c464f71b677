// trick: has its side of the shared memory put into huge pages, and the baseline's not
// row: 19
// expect: failed/WRONG_VALUES
#include "honest.h"

#include <sys/uio.h>

enum { COLLAPSE = 25, PROCESS_MADVISE = 440, ITSELF = -10000 };  // PIDFD_SELF of linux/pidfd.h
static const size_t huge = 2 << 20;

static bool collapsed() {
    char* room = (char*)mmap(nullptr, 2 * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char* first = (char*)(((uintptr_t)room + huge - 1) / huge * huge);
    memset(first, 1, huge);
    iovec range = {first, huge};
    return madvise(first, huge, COLLAPSE) == 0 ||
           syscall(PROCESS_MADVISE, ITSELF, &range, 1, COLLAPSE, 0) == (long)huge;
}

extern "C" int centred(const centred_args* args) { return answer_if(collapsed(), args); }
