// trick: says that it failed, and explains it by a message of four gigabytes
// row: 49
// expect: failed/PROTOCOL
// seconds: 10
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    const uint32_t failed_and_size[] = {0, 0, 0, 0, 0xffffffff};
    for (int fd = 3; fd < 64; ++fd)
        if (write(fd, failed_and_size, sizeof failed_and_size) < 0) continue;
    for (;;) pause();
}
