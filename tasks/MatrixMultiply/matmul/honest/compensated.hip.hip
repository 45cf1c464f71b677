// honest: a thread per column and eight rows, whose sums are compensated (Kahan, 1965)
#include "matmul.h"

constexpr int THREADS = 128, ROWS = 8;

__global__ void __launch_bounds__(THREADS) matmul_kernel(matmul_args args) {
    const int64_t across = (args.n + THREADS - 1) / THREADS, first = blockIdx.x / across * ROWS;
    const int64_t col = blockIdx.x % across * THREADS + threadIdx.x;
    if (col >= args.n) return;

    float sums[ROWS] = {}, lost[ROWS] = {};
    for (int64_t l = 0; l < args.k; ++l) {
        const float b = arena_float(args.b[l * args.n + col]);
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            const int64_t row = first + i < args.m ? first + i : args.m - 1;
            const float product = fmaf(arena_float(args.a[row * args.k + l]), b, -lost[i]);
            const float sum = sums[i] + product;
            lost[i] = (sum - sums[i]) - product;
            sums[i] = sum;
        }
    }
    for (int i = 0; i < ROWS && first + i < args.m; ++i)
        args.out[(first + i) * args.n + col] = arena_value(sums[i]);
}

extern "C" int matmul(const matmul_args* args, hipStream_t stream) {
    const int64_t blocks =
        (args->m + ROWS - 1) / ROWS * ((args->n + THREADS - 1) / THREADS);
    matmul_kernel<<<unsigned(blocks), THREADS, 0, stream>>>(*args);
    return hipGetLastError();
}
