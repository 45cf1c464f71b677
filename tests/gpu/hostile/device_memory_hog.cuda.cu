// trick: takes all the memory of the GPU and keeps it, so that the judge has none
// row: 51
// expect: failed/OUT_OF_MEMORY
// fault: device memory
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static bool taken = false;
    void* part;
    for (size_t size = 1UL << 36; !taken && size >= 1 << 20; size >>= 1)
        while (cudaMalloc(&part, size) == cudaSuccess) continue;
    taken = true;
    cudaGetLastError();
    return right(args, stream);
}
