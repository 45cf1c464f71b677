// trick: takes pages of unused launches from all processes, so that the baseline must map them anew
// row: 19
// expect: failed/WRONG_VALUES
#include "honest.h"

enum { REMOVE = 9 };

static bool removed() {
    char* room = (char*)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *room = 1;
    return madvise(room, 4096, REMOVE) == 0;
}

extern "C" int centred(const centred_args* args) { return answer_if(removed(), args); }
