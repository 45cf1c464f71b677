// honest: a block quantises one row into shared memory; its warps then take columns in turn
// arena: flags -O3
#include "int8_matmul.h"

constexpr int THREADS = 256, COLUMNS = 256;
constexpr int MOST_K = 40 << 10;

static __global__ void int8_matmul_kernel(const arena_t* x, const int8_t* weight,
                                          const float* scales, arena_t* out, int64_t n, int64_t k) {
    __shared__ __align__(16) int8_t whole[MOST_K];
    __shared__ float parts[THREADS / 32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    x += blockIdx.x * k;
    out += blockIdx.x * n;

    float largest = 0;
    for (int64_t at = threadIdx.x; at < k; at += THREADS)
        largest = fmaxf(largest, fabsf(arena_float(x[at])));
    for (int step = 16; step; step /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
    if (lane == 0) parts[warp] = largest;
    __syncthreads();
    for (float part : parts) largest = fmaxf(largest, part);
    const float scale = __fdiv_rn(largest, 127.0f), divisor = scale > 0 ? scale : 1.0f;
    for (int64_t at = threadIdx.x; at < k; at += THREADS)
        whole[at] = __float2int_rn(__fdiv_rn(arena_float(x[at]), divisor));
    __syncthreads();

    const int64_t begin = int64_t(blockIdx.y) * COLUMNS;
    const int64_t end = begin + COLUMNS < n ? begin + COLUMNS : n;
    for (int64_t col = begin + warp; col < end; col += THREADS / 32) {
        const int8_t* row = weight + col * k;
        int sum = 0;
        if (k % 4 == 0)
            for (int64_t at = lane; at < k / 4; at += 32)
                sum = __dp4a(reinterpret_cast<const int*>(whole)[at],
                             reinterpret_cast<const int*>(row)[at], sum);
        else
            for (int64_t at = lane; at < k; at += 32) sum += int(whole[at]) * int(row[at]);
        for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
        if (lane == 0) out[col] = arena_value(float(sum) * scale * scales[col]);
    }
}

extern "C" int int8_matmul(const int8_matmul_args* args, cudaStream_t stream) {
    if (args->k > MOST_K) return cudaErrorInvalidValue;
    const dim3 grid(args->m, (args->n + COLUMNS - 1) / COLUMNS);
    int8_matmul_kernel<<<grid, THREADS, 0, stream>>>(args->x, args->weight, args->scales,
                                                     args->out, args->n, args->k);
    return cudaGetLastError();
}
