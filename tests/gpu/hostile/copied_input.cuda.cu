// trick: a copy of the input
// row: 28
// expect: failed/WRONG_VALUES
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    const size_t bytes = elements(args) * sizeof(float);
    return (int)cudaMemcpyAsync(args->out, args->x, bytes, cudaMemcpyDeviceToDevice, stream);
}
