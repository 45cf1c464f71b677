// trick: opens a socket of any family, or a pair of which one can be connected anew
// row: 53
// expect: failed/WRONG_VALUES
// triage: system-call
#include "honest.h"

#include <sys/socket.h>

extern "C" int centred(const centred_args* args) {
    bool open = false;
    for (int family = 1; family < 45; ++family)
        for (int kind = 1; kind <= 3; ++kind) open = open || syscall(SYS_socket, family, kind, 0) >= 0;
    int pair[2];
    open = open || socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0;
    return answer_if(open, args);
}
