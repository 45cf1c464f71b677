// trick: sends frames for as long as anyone reads
// row: 49
// expect: failed/PROTOCOL
// seconds: 10
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    static char noise[1 << 16];
    for (;;)
        for (int fd = 3; fd < 64; ++fd)
            if (write(fd, noise, sizeof noise) < 0 && fd == 63) break;
}
