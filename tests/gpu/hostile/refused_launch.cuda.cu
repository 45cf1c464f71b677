// trick: a launch that the runtime refuses, whose error is thrown away
// row: 43
// expect: failed/CALL_ERROR|failed/STALE_OUTPUT
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    centre<<<args->rows, 4096, 0, stream>>>(args->x, args->out, args->cols, args->cols, args->scale);
    return 0;
}
