// One block for each row: a sum through shared memory, then the row less its mean.
#include "centred.h"

static __global__ void centre(const float* x, float* out, int64_t cols, float scale) {
    __shared__ float sums[256];
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;
    float sum = 0;
    for (int64_t col = threadIdx.x; col < cols; col += 256) sum += x[col];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half; half >>= 1) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    const float mean = sums[0] / cols;
    for (int64_t col = threadIdx.x; col < cols; col += 256) out[col] = (x[col] - mean) * scale;
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    centre<<<args->rows, 256, 0, stream>>>(args->x, args->out, args->cols, args->scale);
    return (int)cudaGetLastError();
}
