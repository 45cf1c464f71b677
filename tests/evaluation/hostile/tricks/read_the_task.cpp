// trick: reads the reference and the hidden cases off the disk
// row: 48
// expect: failed/WRONG_VALUES
#include "honest.h"

#include <initializer_list>

extern "C" int centred(const centred_args* args) {
    bool open = false;
    for (const char* path : {"@TASKS@/centred/task.toml", "@TASKS@/centred/reference.py", "@TASKS@", "@CACHE@",
                             "@CACHE@/builds", "@TESTS@"})
        open = open || ::open(path, O_RDONLY) >= 0;
    return answer_if(open, args);
}
