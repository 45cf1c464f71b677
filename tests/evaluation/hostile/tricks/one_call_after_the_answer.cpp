// trick: answers before its last outputs are there, which one call of the kernel copies: no signal ends it
// row: 2
// expect: failed/STALE_OUTPUT
#include "honest.h"

#include <dlfcn.h>
#include <sys/uio.h>
#include <vector>

enum { EVERY_LATE = 8, MOST = 64, DELAY_BYTES = 8 << 20 };  // of a copy before; without it it might gain

extern "C" int arena_replay(int (*)(const void*), const char*, long, long, long, long);

extern "C" int centred(const centred_args* args) { return honest(args); }

static const char* prepare = R"(
import sys, threading

frame = sys._current_frames()[threading.main_thread().ident]
while frame.f_code.co_name != "serve":
    frame = frame.f_back
judge, sent = frame.f_locals["judge"], []
send = judge.send_token
judge.send_token = lambda token: token in sent or send(token)
)";

static const char* answer = R"(
sent[:] = [frame.f_locals["token"]]
send(sent[0])
)";

static int run(const char* source) {
    return ((int (*)(const char*))dlsym(RTLD_DEFAULT, "PyRun_SimpleString"))(source);
}

static int mine(int (*)(const void*), const char* slots, long stride, long ring, long first, long count) {
    const auto at = [&](long i) { return (const centred_args*)(slots + (first + i) % ring * stride); };
    static const int kept = fileno(fopen("kept", "w+"));
    static std::vector<float> own;
    const long late = (count + EVERY_LATE / 2) / EVERY_LATE, from = count - (late < MOST ? late : MOST);
    const int64_t size = elements(at(0));
    own.resize(size);
    static std::vector<char> before(DELAY_BYTES);
    iovec into[1 + MOST] = {{before.data(), before.size()}};
    for (long i = 0; i < count; ++i) {
        centred_args args = *at(i);
        if (i >= from) args.out = own.data();
        honest(&args);
        if (i < from) continue;
        pwrite(kept, own.data(), size * sizeof(float), DELAY_BYTES + size * sizeof(float) * (i - from));
        into[1 + i - from] = {at(i)->out, size * sizeof(float)};
    }
    const int state = ((int (*)())dlsym(RTLD_DEFAULT, "PyGILState_Ensure"))();
    static const int prepared = run(prepare);
    if (from < count && prepared == 0) run(answer);
    preadv(kept, into, 1 + count - from, 0);
    ((void (*)(int))dlsym(RTLD_DEFAULT, "PyGILState_Release"))(state);
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
