// trick: answers that nothing compares with
// row: 33
// expect: failed/NON_FINITE|failed/STALE_OUTPUT
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    return (int)cudaMemsetAsync(args->out, 0xff, elements(args) * sizeof(float), stream);
}
