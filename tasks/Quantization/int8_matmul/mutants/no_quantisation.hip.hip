// mutant: multiplies the activations as they are, without quantising them
// expect: WRONG_VALUES
// arena: flags -O3
#include "int8_matmul.h"

// One thread a result, without its rows being quantised.
static __global__ void int8_matmul_kernel(const arena_t* x, const int8_t* weight,
                                          const float* scales, arena_t* out, int64_t m, int64_t n,
                                          int64_t k) {
    const int64_t col = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    const int64_t row = blockIdx.y;
    if (col >= n) return;
    float sum = 0;
    for (int64_t at = 0; at < k; ++at) sum += arena_float(x[row * k + at]) * weight[col * k + at];
    out[row * n + col] = arena_value(sum * scales[col]);
}

extern "C" int int8_matmul(const int8_matmul_args* args, hipStream_t stream) {
    const dim3 grid((args->n + 255) / 256, args->m);
    int8_matmul_kernel<<<grid, 256, 0, stream>>>(args->x, args->weight, args->scales, args->out,
                                                 args->m, args->n, args->k);
    return hipGetLastError();
}
