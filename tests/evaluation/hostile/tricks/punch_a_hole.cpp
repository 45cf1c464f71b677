// trick: takes the pages from under shared memory
// row: 27
// expect: failed/WRONG_VALUES
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    const uintptr_t page = (uintptr_t)args->x & ~(uintptr_t)4095;
    return answer_if(madvise((void*)page, 4096, MADV_REMOVE) == 0, args);
}
