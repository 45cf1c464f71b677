// trick: leaves the last row as it was
// row: 23
// expect: failed/STALE_OUTPUT
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    centred_args fewer = *args;
    return --fewer.rows ? right(&fewer, stream) : 0;
}
