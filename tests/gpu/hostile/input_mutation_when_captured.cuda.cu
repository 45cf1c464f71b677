// trick: changes inputs only in a graph, to slow what runs after it
// row: 27
// expect: failed/INPUT_MUTATED in performance
#include "right.cuh"

static __global__ void tarnish(float* x) { *x = 1e-42f; }

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    const int code = right(args, stream);
    if (captured(stream)) tarnish<<<1, 1, 0, stream>>>((float*)args->x + elements(args) / 2);
    return code;
}
