// trick: takes the parameter that every case shown has for a constant
// row: 38
// scope: final
// expect: failed/WRONG_VALUES
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    centre<<<args->rows, 256, 0, stream>>>(args->x, args->out, args->cols, args->cols, 2.0f);
    return (int)cudaGetLastError();
}
