// trick: hands in whatever somebody left in memory that was just allocated
// row: 22
// expect: failed/WRONG_VALUES|failed/NON_FINITE|failed/STALE_OUTPUT
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    const size_t bytes = elements(args) * sizeof(float);
    void* found;
    cudaMalloc(&found, bytes);
    return (int)cudaMemcpyAsync(args->out, found, bytes, cudaMemcpyDeviceToDevice, stream);
}
