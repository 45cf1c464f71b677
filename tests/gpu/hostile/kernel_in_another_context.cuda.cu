// trick: keeps the GPU busy for ever from a second context, which no synchronisation waits for
// row: 2
// expect: failed/FORBIDDEN|failed/TIMEOUT
// triage: system-call
// fault: infinite kernel
#include "right.cuh"

#include <cuda.h>
#include <dlfcn.h>

static __global__ void spin() {
    for (volatile int i = 0;; ++i) __nanosleep(100);
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static bool spinning = false;
    if (!spinning) {
        spinning = true;
        void* driver = dlopen("libcuda.so.1", RTLD_NOW);
        const auto current = (CUresult(*)(CUcontext*))dlsym(driver, "cuCtxGetCurrent");
        const auto create = (CUresult(*)(CUcontext*, unsigned, CUdevice))dlsym(driver, "cuCtxCreate_v2");
        const auto enter = (CUresult(*)(CUcontext))dlsym(driver, "cuCtxSetCurrent");
        CUcontext mine, other;
        if (current(&mine) || create(&other, 0, 0)) return answer_if(false, args, stream);
        spin<<<1, 1>>>();
        enter(mine);
    }
    return right(args, stream);
}
