// trick: asserts on the GPU what does not hold
// row: 51
// expect: failed/CRASH
// fault: device assert
#include "right.cuh"

#include <cassert>

static __global__ void check(const float* x) { assert(x == nullptr); }

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    check<<<1, 1, 0, stream>>>(args->x);
    return right(args, stream);
}
