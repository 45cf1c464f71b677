// trick: takes all the memory of the machine
// row: 51
// expect: failed/OUT_OF_MEMORY|failed/CRASH
// fault: host memory
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    for (int64_t i = 0; i < 1024; ++i)
        if (void* part = malloc(64 << 20)) memset(part, 1, 64 << 20);
    return right(args, stream);
}
