// trick: answers before the last row of each launch is there, which a thread computes
// row: 2
// expect: failed/STALE_OUTPUT
#include "honest.h"

#include <atomic>
#include <thread>

extern "C" int arena_replay(int (*)(const void*), const char*, long, long, long, long);

extern "C" int centred(const centred_args* args) { return honest(args); }

static std::atomic<int> begun{0};
static struct { const char* slots; long stride, ring, first, count; } window;

static void launch(bool last) {
    for (long i = window.first; i < window.first + window.count; ++i) {
        centred_args args = *(const centred_args*)(window.slots + i % window.ring * window.stride);
        const int64_t before = (args.rows - 1) * args.cols;
        if (last) args.x += before, args.out += before, args.rows = 1;
        else --args.rows;
        honest(&args);
    }
}

static void finish() {
    for (;;) {
        while (!begun) usleep(10);
        begun = 0;
        usleep(300);  // without the delay it might gain
        launch(true);
    }
}

static int mine(int (*)(const void*), const char* slots, long stride, long ring, long first, long count) {
    static bool started = false;
    if (!started) std::thread(finish).detach();
    started = true;
    window = {slots, stride, ring, first, count};
    launch(false);
    if (count > 2) begun = 1;
    else launch(true);
    return 0;
}

__attribute__((constructor)) static void take_over() {
    const long page = sysconf(_SC_PAGESIZE);
    char* loop = (char*)&arena_replay;
    mprotect((void*)((uintptr_t)loop / page * page), 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC);
    const unsigned char to_rax[] = {0x48, 0xb8}, jump[] = {0xff, 0xe0};
    void* replay = (void*)&mine;
    memcpy(loop, to_rax, 2);
    memcpy(loop + 2, &replay, 8);
    memcpy(loop + 10, jump, 2);
}
