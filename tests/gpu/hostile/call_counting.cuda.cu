// trick: honest for as many calls as checks take, then idle
// row: 12
// expect: failed/STALE_OUTPUT
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static int calls = 0;
    return calls++ < 400 ? right(args, stream) : 0;
}
