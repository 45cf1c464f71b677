// trick: ends itself on the sizes on which it would be slow, so that the mean is over the others
// row: 18
// expect: failed/CRASH
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    if (elements(args) > 1 << 15) abort();
    return right(args, stream);
}
