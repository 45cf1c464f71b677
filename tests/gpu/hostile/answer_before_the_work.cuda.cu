// trick: finds the question in its memory, answers it, and stops the clock before the work is done
// row: 49
// expect: failed/STALE_OUTPUT|failed/PROTOCOL
// triage: machine-files
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    char line[512], found[32] = "";
    FILE* maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char rights[8];
        if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) != 3 || strncmp(rights, "rw-p", 4)) continue;
        if (strchr(line, '/') || strstr(line, "stack") || to - from > 64UL << 20) continue;
        const char *at = (const char*)from, *end = (const char*)to;
        while ((at = (const char*)memmem(at, end - at, "\"nonce\": \"", 10))) {
            at += 10;
            if (at + 16 < end && at[16] == '"') memcpy(found, at, 16);
        }
    }
    if (maps) fclose(maps);
    char body[80];
    const uint32_t size = snprintf(body, sizeof body, "{\"echo\": \"%s\", \"reason\": null}", found);
    const int null = open("/dev/null", O_WRONLY);
    for (int fd = 3; fd < null; ++fd)
        if (write(fd, &size, 4) == 4) write(fd, body, size);
    usleep(2000);
    return right(args, stream);
}
