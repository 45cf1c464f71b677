// honest: three loops over the row, sums by a tree in shared memory
// arena: flags -O3
#include "layer_norm.h"

constexpr int THREADS = 256;

static __device__ float block_sum(float value) {
    __shared__ float parts[THREADS];
    __syncthreads();  // everyone has read the sum before
    parts[threadIdx.x] = value;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    }
    __syncthreads();
    return parts[0];
}

static __global__ void layer_norm_kernel(const arena_t* x, const arena_t* weight,
                                         const arena_t* bias, arena_t* out, int64_t cols,
                                         float eps) {
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;

    float sum = 0;
    for (int64_t col = threadIdx.x; col < cols; col += THREADS) sum += arena_float(x[col]);
    const float mean = block_sum(sum) / cols;

    float squares = 0;
    for (int64_t col = threadIdx.x; col < cols; col += THREADS) {
        const float centred = arena_float(x[col]) - mean;
        squares += centred * centred;
    }
    const float scale = rsqrtf(block_sum(squares) / cols + eps);

    for (int64_t col = threadIdx.x; col < cols; col += THREADS)
        out[col] = arena_value((arena_float(x[col]) - mean) * scale * arena_float(weight[col]) +
                               arena_float(bias[col]));
}

extern "C" int layer_norm(const layer_norm_args* args, hipStream_t stream) {
    layer_norm_kernel<<<args->rows, THREADS, 0, stream>>>(args->x, args->weight, args->bias,
                                                          args->out, args->cols, args->eps);
    return hipGetLastError();
}
