// honest: mean and variance in one pass, by Welford's recurrence and the merging of Chan et al.
// arena: flags -O3
#include "layer_norm.h"

constexpr int THREADS = 256;

struct Moments {
    float count, mean, squares;
};

static __device__ Moments merged(Moments a, Moments b) {
    const float count = a.count + b.count;
    if (count == 0) return a;
    const float step = b.mean - a.mean, share = b.count / count;
    return {count, a.mean + step * share, a.squares + b.squares + step * step * a.count * share};
}

static __global__ void layer_norm_kernel(const arena_t* x, const arena_t* weight,
                                         const arena_t* bias, arena_t* out, int64_t cols,
                                         float eps) {
    __shared__ Moments parts[THREADS];
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;
    Moments own = {0, 0, 0};
    for (int64_t col = threadIdx.x; col < cols; col += THREADS) {
        const float value = arena_float(x[col]), step = value - own.mean;
        own.count += 1;
        own.mean += step / own.count;
        own.squares += step * (value - own.mean);
    }
    parts[threadIdx.x] = own;
    __syncthreads();
    for (int half = THREADS / 2; half; half /= 2) {
        if (threadIdx.x < half)
            parts[threadIdx.x] = merged(parts[threadIdx.x], parts[threadIdx.x + half]);
        __syncthreads();
    }
    const float mean = parts[0].mean, scale = rsqrtf(parts[0].squares / cols + eps);
    for (int64_t col = threadIdx.x; col < cols; col += THREADS)
        out[col] = arena_value((arena_float(x[col]) - mean) * scale * arena_float(weight[col]) +
                               arena_float(bias[col]));
}

extern "C" int layer_norm(const layer_norm_args* args, cudaStream_t stream) {
    layer_norm_kernel<<<args->rows, THREADS, 0, stream>>>(args->x, args->weight, args->bias,
                                                          args->out, args->cols, args->eps);
    return cudaGetLastError();
}
