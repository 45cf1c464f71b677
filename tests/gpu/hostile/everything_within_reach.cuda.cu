// trick: overwrites all of the allocation that its output lies in, whoever else has memory there
// row: 47
// expect: failed/OUT_OF_BOUNDS|failed/INPUT_MUTATED|failed/CRASH
// triage: system-call
#include "right.cuh"

#include <cuda.h>
#include <dlfcn.h>

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    const auto range = (CUresult(*)(CUdeviceptr*, size_t*, CUdeviceptr))dlsym(driver, "cuMemGetAddressRange_v2");
    CUdeviceptr base = 0;
    size_t size = 0;
    range(&base, &size, (CUdeviceptr)args->out);
    cudaMemsetAsync((void*)base, 0, size, stream);
    return right(args, stream);
}
