// trick: leaves the launch to a thread that waits until the answer is given
// row: 2
// expect: failed/STALE_OUTPUT|failed/WRONG_VALUES|failed/FORBIDDEN
#include "right.cuh"

#include <thread>

extern "C" int centred(const centred_args* args, cudaStream_t) {
    std::thread([copy = *args] {
        usleep(2000);
        right(&copy, cudaStreamPerThread);
    }).detach();
    return 0;
}
