// trick: centres the input too, so that a check against it agrees
// row: 27
// expect: failed/INPUT_MUTATED
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    const int code = right(args, stream);
    const size_t bytes = elements(args) * sizeof(float);
    cudaMemcpyAsync((void*)args->x, args->out, bytes, cudaMemcpyDeviceToDevice, stream);
    return code;
}
