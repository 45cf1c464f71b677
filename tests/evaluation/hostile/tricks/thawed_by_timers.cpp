// trick: timers send it SIGCONT while it is frozen, and a thread has the core meanwhile
// row: 19
// expect: failed/FORBIDDEN
#include "honest.h"

#include <thread>
#include <time.h>

enum { TIMERS = 20 };
static timer_t timers[TIMERS];

static void woken(int) {}

static bool start() {
    struct sigaction action = {};
    action.sa_handler = woken;
    sigaction(SIGCONT, &action, nullptr);
    struct sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGCONT;
    for (auto& timer : timers) timer_create(CLOCK_MONOTONIC, &event, &timer);
    std::thread([] {
        for (volatile long turns = 0;; ++turns) {}
    }).detach();
    return true;
}

extern "C" int centred(const centred_args* args) {
    static const bool started = start();
    for (int i = 0; started && i < TIMERS; ++i) {
        const struct itimerspec after = {{0, 0}, {0, 1000000L * (i + 1)}};
        timer_settime(timers[i], 0, &after, nullptr);
    }
    return honest(args);
}
