// trick: honest for as many calls as checks take, then the mean of the first eighth of a row
// row: 12
// expect: failed/WRONG_VALUES in performance
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static int calls = 0;
    return calls++ < 400 ? right(args, stream) : cheap(args, stream);
}
