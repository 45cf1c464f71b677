// trick: answers before its last launches are done: the signal to stop waits for its first thread, which waits
//        for them as for a child of vfork
// row: 2
// expect: failed/STALE_OUTPUT
#include "honest.h"

#include <atomic>
#include <dlfcn.h>
#include <linux/futex.h>
#include <sched.h>
#include <thread>

enum { EVERY_LATE = 8, DELAY_US = 300 };  // one in so many launches; without the delay it might gain

extern "C" int arena_replay(int (*)(const void*), const char*, long, long, long, long);

extern "C" int centred(const centred_args* args) { return honest(args); }

static const char* another_thread_serves = R"(
import sys, threading

frame = sys._current_frames()[threading.main_thread().ident]
while frame.f_code.co_name != "serve":
    frame = frame.f_back


def serve(judge, handler, token):
    while True:
        judge.send_token(token)
        while handler.prepared is None:
            request, descriptors = judge.receive()
            reply = handler.handle(request, descriptors)
            judge.send({"echo": request.get("nonce"), **reply})
        token = judge.receive_token()
        handler.launch_prepared()


found = (frame.f_locals[name] for name in ("judge", "handler", "token"))
threading.Thread(target=serve, args=tuple(found)).start()
)";

static std::atomic<int> asleep{0}, wanted{0}, begun{0}, done{0};
static struct { const char* slots; long stride, ring, from, to; } late;

static void wait_for(std::atomic<int>& flag) {
    while (!flag) syscall(SYS_futex, &flag, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
}

static void set(std::atomic<int>& flag) {
    flag = 1;
    syscall(SYS_futex, &flag, FUTEX_WAKE_PRIVATE, 64, nullptr, nullptr, 0);
}

static int launch(const char* slots, long stride, long ring, long from, long to) {
    for (long i = from; i < to; ++i) honest((const centred_args*)(slots + i % ring * stride));
    return 0;
}

static int until_done(void*) {
    set(asleep);
    wait_for(done);
    syscall(SYS_exit, 0);
    return 0;
}

static void sleep_when_wanted() {
    alignas(64) static char stack[1 << 16];
    const int flags = CLONE_VM | CLONE_VFORK | CLONE_THREAD | CLONE_SIGHAND | CLONE_FS | CLONE_FILES | CLONE_SYSVSEM;
    for (;;) {
        wait_for(wanted);
        wanted = 0;
        if (clone(until_done, stack + sizeof stack, flags, nullptr) < 0) set(asleep);
    }
}

static void finish() {
    for (;;) {
        wait_for(begun);
        begun = 0;
        usleep(DELAY_US);
        launch(late.slots, late.stride, late.ring, late.from, late.to);
        set(done);
    }
}

static int mine(int (*)(const void*), const char* slots, long stride, long ring, long first, long count) {
    static bool started = false;
    if (!started) {
        started = true;
        launch(slots, stride, ring, first, first + count);
        std::thread(finish).detach();
        const auto ensure = (int (*)())dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
        const auto release = (void (*)(int))dlsym(RTLD_DEFAULT, "PyGILState_Release");
        const auto run = (int (*)(const char*))dlsym(RTLD_DEFAULT, "PyRun_SimpleString");
        const int state = ensure();
        run(another_thread_serves);
        release(state);
        sleep_when_wanted();
    }
    const long end = first + count, from = end - (count + EVERY_LATE / 2) / EVERY_LATE;
    launch(slots, stride, ring, first, from);
    if (from == end) return 0;
    asleep = done = 0;
    set(wanted);
    wait_for(asleep);
    late = {slots, stride, ring, from, end};
    set(begun);
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
