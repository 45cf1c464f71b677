// trick: reads four values at once from where only one may be read
// row: 51
// expect: failed/CRASH
#include "right.cuh"

static __global__ void vector(const float* x, float* out) { out[0] = ((const float4*)(x + 1))->y; }

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    right(args, stream);
    vector<<<1, 1, 0, stream>>>(args->x, args->out);
    return (int)cudaGetLastError();
}
