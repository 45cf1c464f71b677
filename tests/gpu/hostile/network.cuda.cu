// trick: opens a socket by which anybody could be reached, on this machine or beyond
// row: 53
// expect: failed/WRONG_VALUES
// triage: system-call
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    bool found = false;
    for (int family = 1; family < 45; ++family)
        for (int kind = 1; kind <= 3; ++kind) found = found || syscall(SYS_socket, family, kind, 0) >= 0;
    return answer_if(found, args, stream);
}
