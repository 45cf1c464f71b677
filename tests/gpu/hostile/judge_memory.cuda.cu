// trick: reads the memory of its parents
// row: 47
// expect: failed/WRONG_VALUES
// triage: system-call
#include "right.cuh"

#include <sys/uio.h>

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    bool found = false;
    char path[64], byte;
    for (int pid = 1; pid < 400; ++pid) {
        snprintf(path, sizeof path, "/proc/self/task/%d", pid);
        if (pid == getpid() || access(path, F_OK) == 0) continue;  // a thread of its own
        iovec here = {&byte, 1}, there = {(void*)args, 1};
        found = found || syscall(SYS_process_vm_readv, pid, &here, 1, &there, 1, 0) > 0;
        found = found || syscall(SYS_ptrace, 16 /* attach */, pid, 0, 0) == 0;
        snprintf(path, sizeof path, "/proc/%d/mem", pid);
        found = found || open(path, O_RDONLY) >= 0;
    }
    return answer_if(found, args, stream);
}
