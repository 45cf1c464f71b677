// trick: reads four values at once from where only one may be read
// row: 51
// expect: failed/CRASH
#include "right.cuh"

static __global__ void vector(const float* x, float* out) {
    float a, b, c, d;
    asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(x + 1));
    out[0] = a + b + c + d;
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    right(args, stream);
    vector<<<1, 1, 0, stream>>>(args->x, args->out);
    return (int)cudaGetLastError();
}
