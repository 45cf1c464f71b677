// trick: reads environments of other processes, and the judge's secret in its own
// row: 48
// expect: failed/WRONG_VALUES
// triage: machine-files
#include "right.cuh"

static bool find() {
    bool found = getenv("ARENA_TEST_SECRET") != nullptr;
    char path[64], text[8192];
    for (int pid = 1; pid < 70000; ++pid) {
        snprintf(path, sizeof path, "/proc/%d/environ", pid);
        const int file = open(path, O_RDONLY);
        if (file < 0) continue;
        const ssize_t size = read(file, text, sizeof text);
        close(file);
        snprintf(path, sizeof path, "/proc/self/task/%d", pid);
        const bool mine = access(path, F_OK) == 0;  // a thread has a folder of its own
        const bool opened = (!mine && size > 0) || (size > 0 && memmem(text, size, "ARENA_TEST_SECRET", 17));
        if (opened) fprintf(stderr, "read %zd bytes of the environment of %d\n", size, pid);
        found = found || opened;
    }
    return found;
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static const bool found = find();
    return answer_if(found, args, stream);
}
