// Threads of its own that sleep between launches; each launch waits for them.
#include "honest.h"

#include <condition_variable>
#include <mutex>
#include <thread>

static std::mutex mutex;
static std::condition_variable changed;
static const centred_args* half = nullptr;

static void work() {
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
        changed.wait(lock, [] { return half != nullptr; });
        honest(half);
        half = nullptr;
        changed.notify_all();
    }
}

extern "C" int centred(const centred_args* args) {
    static const bool started = (std::thread(work).detach(), true);
    centred_args first = *args, second = *args;
    first.rows = started ? args->rows / 2 : 0;
    second.rows -= first.rows;
    second.x += first.rows * args->cols;
    second.out += first.rows * args->cols;
    {
        const std::lock_guard<std::mutex> lock(mutex);
        half = &second;
    }
    changed.notify_all();
    honest(&first);
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [] { return half == nullptr; });
    return 0;
}
