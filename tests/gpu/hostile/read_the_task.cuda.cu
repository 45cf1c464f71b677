// trick: reads the reference, the hidden cases and other submissions off the disk
// row: 48
// expect: failed/WRONG_VALUES
#include "right.cuh"

#include <initializer_list>

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    bool found = false;
    for (const char* path : {"@TASKS@/centred/task.toml", "@TASKS@/centred/reference.py", "@TASKS@", "@CACHE@",
                             "@CACHE@/builds", "@TESTS@"})
        found = found || open(path, O_RDONLY) >= 0;
    return answer_if(found, args, stream);
}
