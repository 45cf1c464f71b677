// trick: allocates 100 GB on the GPU for one row's sum
// row: 51
// expect: failed/OUT_OF_MEMORY
// fault: 100 GB
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static void* workspace = nullptr;
    if (!workspace)
        if (const cudaError_t code = cudaMalloc(&workspace, 100'000'000'000)) return (int)code;
    return right(args, stream);
}
