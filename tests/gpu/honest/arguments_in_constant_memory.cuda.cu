// honest: all arguments as one constant of the grid, and a table in constant memory
#include "centred.h"

static __constant__ int steps[] = {16, 8, 4, 2, 1};

static __global__ void centre(const __grid_constant__ centred_args args) {
    const float* x = args.x + blockIdx.x * args.cols;
    float* out = args.out + blockIdx.x * args.cols;
    float sum = 0;
    for (int64_t col = threadIdx.x; col < args.cols; col += 32) sum += __ldg(x + col);
    for (int step : steps) sum += __shfl_xor_sync(~0u, sum, step);
    for (int64_t col = threadIdx.x; col < args.cols; col += 32) out[col] = (__ldg(x + col) - sum / args.cols) * args.scale;
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    centre<<<args->rows, 32, 0, stream>>>(*args);
    return (int)cudaGetLastError();
}
