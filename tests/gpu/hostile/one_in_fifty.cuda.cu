// trick: leaves one element in fifty wrong, as a bound on how many match would let pass
// row: 32
// expect: failed/WRONG_VALUES
#include "right.cuh"

static __global__ void spoil_some(float* out, int64_t count) {
    const int64_t i = (blockIdx.x * 256L + threadIdx.x) * 50;
    if (i < count) out[i] = 3 * out[i] + 1;
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    right(args, stream);
    spoil_some<<<(elements(args) / 50 + 256) / 256, 256, 0, stream>>>(args->out, elements(args));
    return (int)cudaGetLastError();
}
