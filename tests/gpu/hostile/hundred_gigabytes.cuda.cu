// trick: allocates two thirds of the GPU's memory for one row's sum
// row: 51
// expect: failed/OUT_OF_MEMORY
// fault: most of the device memory
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static void* workspace = nullptr;
    size_t left = 0, total = 0;
    if (const cudaError_t code = cudaMemGetInfo(&left, &total)) return (int)code;
    if (!workspace)
        if (const cudaError_t code = cudaMalloc(&workspace, total / 3 * 2)) return (int)code;
    return right(args, stream);
}
