// trick: writes an answer into every descriptor and does nothing
// row: 49
// expect: failed/PROTOCOL
#include "honest.h"

static void forge() {
    const char body[] = "{\"echo\": null, \"reason\": null}";
    const uint32_t size = sizeof body - 1;
    for (int fd = 3; fd < 1024; ++fd)
        if (write(fd, &size, 4) == 4 && write(fd, body, size) < 0) return;
}

extern "C" int centred(const centred_args* args) {
    forge();
    return 0;
}
