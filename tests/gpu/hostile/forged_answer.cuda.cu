// trick: writes an answer into every descriptor and does nothing
// row: 49
// expect: failed/PROTOCOL|failed/CRASH
#include "right.cuh"

extern "C" int centred(const centred_args*, cudaStream_t) {
    const char body[] = "{\"echo\": null, \"reason\": null}";
    const uint32_t size = sizeof body - 1;
    for (int fd = 3; fd < 1024; ++fd)
        if (write(fd, &size, 4) == 4 && write(fd, body, size) < 0) break;
    return 0;
}
