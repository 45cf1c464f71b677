// trick: launches the first block and no other once it is captured
// row: 23
// expect: failed/STALE_OUTPUT
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    centred_args one = *args;
    if (captured(stream)) one.rows = 1;
    return right(&one, stream);
}
