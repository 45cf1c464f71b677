// trick: a grid of more blocks than ever end
// row: 51
// expect: failed/TIMEOUT
// seconds: 2
#include "right.cuh"

static __global__ void nothing() {}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    nothing<<<dim3(0x7fffffff, 65535), 1, 0, stream>>>();
    return right(args, stream);
}
