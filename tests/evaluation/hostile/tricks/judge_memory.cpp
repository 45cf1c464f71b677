// trick: reads the memory of its parents
// row: 47
// expect: failed/WRONG_VALUES
// triage: system-call
#include "honest.h"

#include <sys/uio.h>

extern "C" int centred(const centred_args* args) {
    bool open = false;
    char path[64], byte;
    for (int pid = 1; pid < 400; ++pid) {
        if (pid == getpid()) continue;
        iovec here = {&byte, 1}, there = {(void*)args, 1};
        open = open || syscall(SYS_process_vm_readv, pid, &here, 1, &there, 1, 0) > 0;
        open = open || syscall(SYS_ptrace, 16 /* attach */, pid, 0, 0) == 0;
        snprintf(path, sizeof path, "/proc/%d/mem", pid);
        open = open || ::open(path, O_RDONLY) >= 0;
        snprintf(path, sizeof path, "/proc/%d/maps", pid);
        const int maps = ::open(path, O_RDONLY);
        open = open || (maps >= 0 && read(maps, &byte, 1) == 1);
        if (maps >= 0) close(maps);
    }
    return answer_if(open, args);
}
