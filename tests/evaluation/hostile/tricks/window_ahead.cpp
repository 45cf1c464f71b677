// trick: overwrites the loop that launches: a window is answered into memory of its own, and handed out after
// row: 11
// expect: failed/WRONG_VALUES in performance
#include "honest.h"

#include <vector>

extern "C" int arena_replay(int (*)(const void*), const char*, long, long, long, long);

extern "C" int centred(const centred_args* args) { return honest(args); }

static int ahead(int (*)(const void*), const char* slots, long stride, long ring, long first, long count) {
    static std::vector<float> kept;
    const auto at = [&](long i) { return (const centred_args*)(slots + (first + i) % ring * stride); };
    if (count < 3) {
        for (long i = 0; i < count; ++i) honest(at(i));
        return 0;
    }
    const int64_t size = elements(at(0));
    kept.resize(count * size);
    for (long i = 0; i < count; ++i) {
        centred_args own = *at(i);
        own.out = kept.data() + i * size;
        honest(&own);
    }
    usleep(2000);  // a larger window would take as long
    for (long i = 0; i < count; ++i) memcpy(at(i)->out, kept.data() + i * size, size * sizeof(float));
    return 0;
}

__attribute__((constructor)) static void take_over() {
    const long page = sysconf(_SC_PAGESIZE);
    char* loop = (char*)&arena_replay;
    mprotect((void*)((uintptr_t)loop / page * page), 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC);
    const unsigned char to_rax[] = {0x48, 0xb8}, jump[] = {0xff, 0xe0};
    void* mine = (void*)&ahead;
    memcpy(loop, to_rax, 2);
    memcpy(loop + 2, &mine, 8);
    memcpy(loop + 10, jump, 2);
}
