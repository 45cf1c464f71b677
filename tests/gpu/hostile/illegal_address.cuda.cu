// trick: writes where nothing is
// row: 51
// expect: failed/CRASH
// fault: illegal access
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    centred_args nowhere = *args;
    nowhere.out = (float*)8;
    return right(&nowhere, stream);
}
