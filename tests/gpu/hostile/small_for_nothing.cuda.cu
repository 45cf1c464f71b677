// trick: does nothing on small sizes, so that their time drags the mean of all towards zero
// row: 17
// expect: failed/STALE_OUTPUT
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    return elements(args) < 1024 ? 0 : right(args, stream);
}
