// trick: calls itself on the GPU until its stack is full
// row: 51
// expect: failed/CRASH|failed/CALL_ERROR
// fault: stack overflow
#include "right.cuh"

static __device__ __noinline__ float deeper(const float* x, int64_t depth) {
    volatile float frame[64];
    for (int i = 0; i < 64; ++i) frame[i] = x[0] + depth;
    return depth < 0 ? frame[depth & 63] : deeper(x, depth + 1) + frame[depth & 63];
}

static __global__ void fall(const float* x, float* out) { out[0] = deeper(x, 0); }

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    fall<<<1, 32, 0, stream>>>(args->x, args->out);
    return (int)cudaGetLastError();
}
