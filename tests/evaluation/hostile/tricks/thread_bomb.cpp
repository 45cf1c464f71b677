// trick: starts thousands of threads that wait
// row: 51
// expect: failed/FORBIDDEN|failed/WRONG_VALUES
// seconds: 10
#include "honest.h"

#include <pthread.h>

static void* wait_for_ever(void*) {
    for (;;) pause();
}

extern "C" int centred(const centred_args* args) {
    static int started = 0;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    for (pthread_t thread; started < 3000 && !pthread_create(&thread, &small, wait_for_ever, nullptr);) ++started;
    return answer_if(started >= 3000, args);
}
