// trick: works on a stream of its own that the timed one never waits for, nor a graph holds
// row: 1
// expect: failed/STALE_OUTPUT|failed/FORBIDDEN
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t) {
    static cudaStream_t aside = nullptr;
    if (!aside) cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking);
    return right(args, aside);
}
