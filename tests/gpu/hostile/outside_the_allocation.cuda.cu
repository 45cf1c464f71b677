// trick: looks for the baseline's answers by arithmetic on its own pointers
// row: 47
// expect: failed/CRASH
// fault: illegal access
#include "right.cuh"

static __global__ void search(const float* from, float* out) { out[0] = from[1L << 36]; }

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    right(args, stream);
    search<<<1, 1, 0, stream>>>(args->out, args->out);
    return (int)cudaGetLastError();
}
