// trick: changes the judge's own source, the task and the interpreter
// row: 50
// expect: failed/WRONG_VALUES
#include "right.cuh"

#include <initializer_list>
#include <sys/stat.h>

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    bool found = false;
    for (const char* path : {"@PACKAGE@/oracle.py", "@PACKAGE@/__init__.py", "@TASKS@/centred/task.toml", "@PYTHON@"})
        found = found || open(path, O_WRONLY | O_APPEND) >= 0 || rename(path, "@OUTSIDE@") == 0;
    return answer_if(found || open("@OUTSIDE@", O_CREAT | O_WRONLY, 0600) >= 0, args, stream);
}
