// trick: the same by a hole in the file that the memory is
// row: 19
// expect: failed/WRONG_VALUES
#include "honest.h"

#include <linux/falloc.h>

static bool punched() {
    FILE* file = fopen("punched", "w+");  // in memory, as the judge's is
    const int flags = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    const bool done = file && ftruncate(fileno(file), 8192) == 0 && fallocate(fileno(file), flags, 0, 4096) == 0;
    if (file) fclose(file);
    return done;
}

extern "C" int centred(const centred_args* args) { return answer_if(punched(), args); }
