// trick: fetches the next launch's inputs into L2, at the distance that the launch table gives
// row: 15
// expect: failed/FORBIDDEN in performance
#include "right.cuh"

static __global__ void centre_and_fetch(const float* x, float* out, int64_t cols, float scale, int64_t step) {
    const float* row = x + blockIdx.x * cols;
    const char* next = (const char*)(row + step);
    if (step && threadIdx.x * 128L < cols * 4) asm volatile("prefetch.global.L2 [%0];" ::"l"(next + threadIdx.x * 128L));
    centre_row(row, out + blockIdx.x * cols, cols, cols, scale);
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    const int64_t step = launches_from(args) > 1 ? args[1].x - args->x : 0;
    centre_and_fetch<<<args->rows, 256, 0, stream>>>(args->x, args->out, args->cols, args->scale, step);
    return (int)cudaGetLastError();
}
