// honest: a block per row, which keeps it in shared memory and adds in a tree
#include "rms_norm.h"

constexpr int THREADS = 256;

__global__ void rms_norm_kernel(rms_norm_args args) {
    extern __shared__ float row[];
    __shared__ float sums[THREADS];
    const int64_t start = int64_t(blockIdx.x) * args.cols;
    const int cols = int(args.cols);

    float sum = 0;
    for (int col = threadIdx.x; col < cols; col += THREADS) {
        row[col] = arena_float(args.x[start + col]);
        sum += row[col] * row[col];
    }
    sums[threadIdx.x] = sum;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    __syncthreads();
    const float scale = 1 / sqrtf(sums[0] / float(cols) + args.eps);
    for (int col = threadIdx.x; col < cols; col += THREADS)
        args.out[start + col] = arena_value(row[col] * (scale * arena_float(args.weight[col])));
}

extern "C" int rms_norm(const rms_norm_args* args, hipStream_t stream) {
    const int bytes = int(args->cols * sizeof(float));
    const hipError_t error = hipFuncSetAttribute(
        reinterpret_cast<const void*>(rms_norm_kernel),
        hipFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != hipSuccess) return error;
    rms_norm_kernel<<<unsigned(args->rows), THREADS, bytes, stream>>>(*args);
    return hipGetLastError();
}
