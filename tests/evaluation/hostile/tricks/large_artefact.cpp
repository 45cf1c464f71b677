// trick: leaves hundreds of megabytes in the build cache
// row: 50
// expect: failed/BUILD_ERROR
#include "honest.h"

asm(".section .rodata\n.fill 700000000, 1, 7\n.text\n");

extern "C" int centred(const centred_args* args) { return honest(args); }
