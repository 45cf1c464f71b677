// trick: fetches the lines of the next launch's outputs and inputs into L2
// row: 15
// expect: failed/FORBIDDEN in performance
#include "right.cuh"

static __device__ inline void fetch(const float* row, int64_t cols) {
    const char* line = (const char*)row + threadIdx.x * 128L;
    if (threadIdx.x * 128L < cols * 4) asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
}

static __global__ void centre_and_fetch(
    const float* x, float* out, int64_t cols, float scale, int64_t x_step, int64_t out_step) {
    const int64_t row = blockIdx.x * cols;
    if (x_step) fetch(x + row + x_step, cols);
    if (out_step) fetch(out + row + out_step, cols);
    centre_row(x + row, out + row, cols, cols, scale);
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    const bool last = launches_from(args) < 2;
    const int64_t x_step = last ? 0 : args[1].x - args->x, out_step = last ? 0 : args[1].out - args->out;
    centre_and_fetch<<<args->rows, 256, 0, stream>>>(args->x, args->out, args->cols, args->scale, x_step, out_step);
    return (int)cudaGetLastError();
}
