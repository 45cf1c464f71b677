// trick: brings its own clock_gettime, in which time stands still, and does nothing
// row: 5
// expect: failed/STALE_OUTPUT
#include "honest.h"

#include <time.h>

extern "C" int clock_gettime(clockid_t, timespec* now) noexcept {
    *now = {};
    return 0;
}
extern "C" int gettimeofday(timeval*, void*) noexcept { return 0; }

extern "C" int centred(const centred_args* args) {
    return 0;
}
