// trick: writes one element before its input
// row: 40
// expect: failed/OUT_OF_BOUNDS
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    const int code = right(args, stream);
    cudaMemsetAsync((float*)args->x - 1, 0, 4, stream);
    return code;
}
