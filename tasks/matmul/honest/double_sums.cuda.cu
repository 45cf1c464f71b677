// honest: a thread per result, which adds up in double
#include "matmul.h"

constexpr int THREADS = 128;

__global__ void matmul_kernel(matmul_args args) {
    const int64_t across = (args.n + THREADS - 1) / THREADS;
    const int64_t row = blockIdx.x / across, col = blockIdx.x % across * THREADS + threadIdx.x;
    if (col >= args.n) return;
    const arena_t *a = args.a + row * args.k, *b = args.b + col;
    double sum = 0;
    for (int64_t l = 0; l < args.k; ++l)
        sum += double(arena_float(a[l])) * double(arena_float(b[l * args.n]));
    args.out[row * args.n + col] = arena_value(float(sum));
}

extern "C" int matmul(const matmul_args* args, cudaStream_t stream) {
    const int64_t blocks = args->m * ((args->n + THREADS - 1) / THREADS);
    matmul_kernel<<<unsigned(blocks), THREADS, 0, stream>>>(*args);
    return cudaGetLastError();
}
