// trick: takes memory until none is left
// row: 51
// expect: failed/OUT_OF_MEMORY
// seconds: 10
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    for (;;) {
        char* taken = new char[64 << 20];
        memset(taken, 1, 64 << 20);
    }
}
