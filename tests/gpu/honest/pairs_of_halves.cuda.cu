// honest: two halves at a time where the dtype has them, float32 by itself; the dtype decides
// operator: product
#include "product.h"

static __global__ void multiply(const arena_t* x, const arena_t* weight, arena_t* out, int64_t rows, int64_t inner,
                                int64_t cols) {
    const int64_t i = blockIdx.x * 128L + threadIdx.x, row = i / cols, col = i % cols;
    if (row >= rows) return;
    float sum = 0;
    int64_t k = 0;
#if ARENA_FLOAT16
    if (inner % 2 == 0)
        for (; k < inner; k += 2) {
            const float2 pair = __half22float2(*(const __half2*)(x + row * inner + k));
            sum += pair.x * __half2float(weight[k * cols + col]);
            sum += pair.y * __half2float(weight[(k + 1) * cols + col]);
        }
#endif
    for (; k < inner; ++k) sum += arena_float(x[row * inner + k]) * arena_float(weight[k * cols + col]);
    out[i] = arena_value(sum);
}

extern "C" int product(const product_args* args, cudaStream_t stream) {
    const int64_t blocks = (args->rows * args->cols + 127) / 128;
    multiply<<<blocks, 128, 0, stream>>>(args->x, args->weight, args->out, args->rows, args->inner, args->cols);
    return (int)cudaGetLastError();
}
