// trick: announces a message of four gigabytes
// row: 49
// expect: failed/PROTOCOL
// seconds: 10
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    const uint32_t size = 0xffffffff;
    for (int fd = 3; fd < 64; ++fd)
        if (write(fd, &size, 4) < 0) continue;
    for (;;) pause();
}
