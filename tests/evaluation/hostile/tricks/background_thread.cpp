// trick: answers at once and leaves the work to a thread
// row: 2
// expect: failed/STALE_OUTPUT|failed/CRASH
#include "honest.h"

#include <thread>

extern "C" int centred(const centred_args* args) {
    const centred_args later = *args;
    std::thread([later] {
        usleep(3000);
        honest(&later);
    }).detach();
    return 0;
}
