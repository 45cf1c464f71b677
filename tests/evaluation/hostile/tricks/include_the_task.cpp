// trick: has the compiler read the hidden cases
// row: 48
// expect: failed/BUILD_ERROR
#include "honest.h"

__asm__(".section .rodata\nhidden: .incbin \"@TASKS@/centred/task.toml\"\n.text\n");

extern "C" int centred(const centred_args* args) {
    return honest(args);
}
