// trick: float32 by the matrix units, which round its factors to ten bits
// row: 30
// operator: product
// expect: failed/WRONG_VALUES
#include "product.h"

static __device__ float rounded(float value) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return __uint_as_float(bits);
}

static __global__ void multiply(const arena_t* x, const arena_t* weight, arena_t* out, int64_t rows,
                                int64_t inner, int64_t cols) {
    const int64_t i = blockIdx.x * 256L + threadIdx.x;
    if (i >= rows * cols) return;
    float sum = 0;
    for (int64_t k = 0; k < inner; ++k)
        sum += rounded(arena_float(x[i / cols * inner + k])) * rounded(arena_float(weight[k * cols + i % cols]));
    out[i] = arena_value(sum);
}

extern "C" int product(const product_args* args, cudaStream_t stream) {
    multiply<<<(args->rows * args->cols + 255) / 256, 256, 0, stream>>>(args->x, args->weight, args->out,
                                                                       args->rows, args->inner, args->cols);
    return (int)cudaGetLastError();
}
