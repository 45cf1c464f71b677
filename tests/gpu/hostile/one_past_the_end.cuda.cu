// trick: writes one element after its output
// row: 40
// expect: failed/OUT_OF_BOUNDS
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    const int code = right(args, stream);
    cudaMemsetAsync(args->out + elements(args), 0, 4, stream);
    return code;
}
