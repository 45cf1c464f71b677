// honest: without tensor cores, tiles of 32 x 32 in shared memory, four results a thread
#include "matmul.h"

constexpr int TILE = 32, EACH = 4, ROWS = TILE / EACH;

__global__ void matmul_kernel(matmul_args args) {
    __shared__ float left[TILE][TILE + 1], right[TILE][TILE + 1];
    const int64_t tiles_n = (args.n + TILE - 1) / TILE;
    const int64_t top = blockIdx.x / tiles_n * TILE, side = blockIdx.x % tiles_n * TILE;
    const int x = threadIdx.x, y = threadIdx.y;

    float sums[EACH] = {};
    for (int64_t first = 0; first < args.k; first += TILE) {
        for (int i = y; i < TILE; i += ROWS) {
            const bool in_left = top + i < args.m && first + x < args.k;
            const bool in_right = first + i < args.k && side + x < args.n;
            left[i][x] = in_left ? arena_float(args.a[(top + i) * args.k + first + x]) : 0;
            right[i][x] = in_right ? arena_float(args.b[(first + i) * args.n + side + x]) : 0;
        }
        __syncthreads();
        for (int l = 0; l < TILE; ++l)
            for (int i = 0; i < EACH; ++i) sums[i] += left[y + i * ROWS][l] * right[l][x];
        __syncthreads();
    }
    for (int i = 0; i < EACH; ++i) {
        const int64_t row = top + y + i * ROWS, col = side + x;
        if (row < args.m && col < args.n) args.out[row * args.n + col] = arena_value(sums[i]);
    }
}

extern "C" int matmul(const matmul_args* args, hipStream_t stream) {
    const int64_t blocks = (args->m + TILE - 1) / TILE * ((args->n + TILE - 1) / TILE);
    matmul_kernel<<<unsigned(blocks), dim3(TILE, ROWS), 0, stream>>>(*args);
    return hipGetLastError();
}
