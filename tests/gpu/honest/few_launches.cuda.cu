// honest: a product so slow that a window has few launches
// operator: product
#include "product.h"

static __global__ void multiply(const arena_t* x, const arena_t* weight, arena_t* out, int64_t rows, int64_t inner,
                                int64_t cols) {
    const int64_t row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    long long begun, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now < begun + 300000);
    if (row >= rows || col >= cols) return;
    float sum = 0;
    for (int64_t i = 0; i < inner; ++i) sum += arena_float(x[row * inner + i]) * arena_float(weight[i * cols + col]);
    out[row * cols + col] = arena_value(sum);
}

extern "C" int product(const product_args* args, cudaStream_t stream) {
    const dim3 grid((args->cols + 15) / 16, (args->rows + 15) / 16);
    multiply<<<grid, dim3(16, 16), 0, stream>>>(args->x, args->weight, args->out, args->rows, args->inner, args->cols);
    return (int)cudaGetLastError();
}
