// A tile of 16 by 16 for each block, both factors staged through shared memory.
#include "structured_product.h"

static __global__ void multiply(const arena_t* x, const arena_t* weight, arena_t* out, int64_t rows,
                                int64_t inner, int64_t cols) {
    __shared__ float a[16][17], b[16][17];
    const int64_t row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int64_t start = 0; start < inner; start += 16) {
        const int64_t left = start + threadIdx.x, upper = start + threadIdx.y;
        a[threadIdx.y][threadIdx.x] = row < rows && left < inner ? arena_float(x[row * inner + left]) : 0;
        b[threadIdx.y][threadIdx.x] = upper < inner && col < cols ? arena_float(weight[upper * cols + col]) : 0;
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += a[threadIdx.y][i] * b[i][threadIdx.x];
        __syncthreads();
    }
    if (row < rows && col < cols) out[row * cols + col] = arena_value(sum);
}

extern "C" int structured_product(const structured_product_args* args, cudaStream_t stream) {
    const dim3 grid((args->cols + 15) / 16, (args->rows + 15) / 16);
    multiply<<<grid, dim3(16, 16), 0, stream>>>(args->x, args->weight, args->out, args->rows, args->inner,
                                                args->cols);
    return (int)cudaGetLastError();
}
