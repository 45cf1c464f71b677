// trick: takes the pages from under shared memory
// row: 27
// expect: failed/INPUT_MUTATED|failed/OUT_OF_BOUNDS|failed/STALE_OUTPUT
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    honest(args);
    const uintptr_t page = (uintptr_t)args->x & ~(uintptr_t)4095;
    madvise((void*)page, 4096, MADV_REMOVE);
    return 0;
}
