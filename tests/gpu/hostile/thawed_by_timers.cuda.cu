// trick: a timer sends it SIGCONT each millisecond while it is frozen, and a thread keeps the GPU busy meanwhile
// row: 19
// expect: failed/FORBIDDEN|failed/PROTOCOL
#include "busy_thread.cuh"

#include <time.h>

static void woken(int) {}

static void begin() {
    struct sigaction action = {};
    action.sa_handler = woken;
    action.sa_flags = SA_RESTART;
    sigaction(SIGCONT, &action, nullptr);
    struct sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGCONT;
    timer_t timer;
    const struct itimerspec each = {{0, 1000000}, {0, 1000000}};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) == 0) timer_settime(timer, 0, &each, nullptr);
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) { return right_beside(args, stream, begin); }
