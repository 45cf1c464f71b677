// trick: takes all the memory of the machine by way of the driver, which locks it
// row: 51
// expect: failed/OUT_OF_MEMORY|failed/CRASH
// fault: host memory
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    void* part;
    for (int i = 0; i < 192; ++i)
        if (cudaMallocHost(&part, 64 << 20) == cudaSuccess) memset(part, 1, 64 << 20);
    cudaGetLastError();
    return right(args, stream);
}
