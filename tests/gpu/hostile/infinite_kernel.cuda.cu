// trick: a kernel that never ends
// row: 51
// expect: failed/TIMEOUT
// seconds: 2
// fault: infinite kernel
#include "right.cuh"

static __global__ void spin(const float* x) {
    while (*(volatile const float*)x == *(volatile const float*)x) __nanosleep(100);
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    spin<<<132, 32, 0, stream>>>(args->x);
    return right(args, stream);
}
