// trick: a constant, zero, for every answer
// row: 24
// expect: failed/WRONG_VALUES
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    return (int)cudaMemsetAsync(args->out, 0, elements(args) * sizeof(float), stream);
}
