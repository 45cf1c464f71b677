// trick: writes a file beside its workspace, in a shared folder and through /proc
// row: 50
// expect: failed/WRONG_VALUES
// triage: machine-files
#include "honest.h"

#include <initializer_list>

extern "C" int centred(const centred_args* args) {
    bool open = false;
    for (const char* path : {"@OUTSIDE@", "/tmp/hostile", "/dev/shm/hostile", "../hostile", "/var/tmp/hostile",
                             "/proc/self/root/tmp/hostile", "@CACHE@/hostile", "/etc/hostile"})
        open = open || ::open(path, O_CREAT | O_WRONLY, 0644) >= 0;
    return answer_if(open, args);
}
