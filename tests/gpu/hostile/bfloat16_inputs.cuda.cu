// trick: reads its inputs in half the bits
// row: 30
// expect: failed/WRONG_VALUES
#include "right.cuh"

static __global__ void rough(const float* x, float* out, int64_t count) {
    const int64_t i = blockIdx.x * 256L + threadIdx.x;
    if (i < count) out[i] = __bfloat162float(__float2bfloat16(out[i]));
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    right(args, stream);
    rough<<<(elements(args) + 255) / 256, 256, 0, stream>>>(args->x, args->out, elements(args));
    return (int)cudaGetLastError();
}
