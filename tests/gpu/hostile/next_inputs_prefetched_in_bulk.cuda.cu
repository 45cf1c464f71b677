// trick: has the copy unit of each multiprocessor fetch the next launch's inputs into L2, in one instruction
// row: 15
// expect: failed/FORBIDDEN in performance
#include "right.cuh"

static __global__ void centre_and_fetch(const float* x, float* out, int64_t cols, float scale, const float* next) {
    const int64_t row = blockIdx.x * cols;
    const uintptr_t from = (uintptr_t)(next + row) & ~15UL;
    const unsigned bytes = (unsigned)(cols * 4 & ~15L);
    if (next && !threadIdx.x && bytes)
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
    centre_row(x + row, out + row, cols, cols, scale);
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    const float* next = args[1].rows == args->rows && args[1].cols == args->cols ? args[1].x : nullptr;
    centre_and_fetch<<<args->rows, 256, 0, stream>>>(args->x, args->out, args->cols, args->scale, next);
    return (int)cudaGetLastError();
}
