// Layer norm, one block a row in loads of sixteen bytes: a sum for the mean, one of the deviations,
// and a pass to scale. Sums go through shared memory, so that no width of a wave is assumed.
// arena: tune-flags "-O2" "-O3" "-O3 -use_fast_math"
// arena: flags -O3
#include "layer_norm.h"

// The most threads that share a row; short rows take fewer.
// arena: tune THREADS 128 256 512 1024
#define THREADS 256

constexpr int VECTOR = 16 / sizeof(arena_t);

struct alignas(16) Vector {
    arena_t values[VECTOR];
};

// The sum over a block of a power of two of threads.
static __device__ float block_sum(float value) {
    __shared__ float parts[THREADS];
    __syncthreads();  // everyone has read the sum before
    parts[threadIdx.x] = value;
    for (int half = blockDim.x / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    }
    __syncthreads();
    return parts[0];
}

// Calls `take(value)` for every element of this thread's share of a row.
template <bool VECTORS, class Take>
static __device__ void each(const arena_t* x, int64_t cols, Take take) {
    if (VECTORS) {
        for (int64_t i = threadIdx.x; i < cols / VECTOR; i += blockDim.x) {
            const Vector vector = reinterpret_cast<const Vector*>(x)[i];
#pragma unroll
            for (int j = 0; j < VECTOR; ++j) take(arena_float(vector.values[j]));
        }
    } else {
        for (int64_t i = threadIdx.x; i < cols; i += blockDim.x) take(arena_float(x[i]));
    }
}

template <bool VECTORS>
static __global__ void __launch_bounds__(THREADS)
    layer_norm_kernel(const arena_t* x, const arena_t* weight, const arena_t* bias, arena_t* out,
                      int64_t cols, float eps) {
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;

    float sum = 0, squares = 0;
    each<VECTORS>(x, cols, [&](float value) { sum += value; });
    const float mean = block_sum(sum) / cols;
    each<VECTORS>(x, cols, [&](float value) { squares += (value - mean) * (value - mean); });
    const float scale = 1 / sqrtf(block_sum(squares) / cols + eps);

    if (VECTORS) {
        for (int64_t i = threadIdx.x; i < cols / VECTOR; i += blockDim.x) {
            const Vector values = reinterpret_cast<const Vector*>(x)[i];
            const Vector weights = reinterpret_cast<const Vector*>(weight)[i];
            const Vector shifts = reinterpret_cast<const Vector*>(bias)[i];
            Vector results;
#pragma unroll
            for (int j = 0; j < VECTOR; ++j)
                results.values[j] =
                    arena_value((arena_float(values.values[j]) - mean) * scale *
                                    arena_float(weights.values[j]) +
                                arena_float(shifts.values[j]));
            reinterpret_cast<Vector*>(out)[i] = results;
        }
    } else {
        for (int64_t i = threadIdx.x; i < cols; i += blockDim.x)
            out[i] = arena_value((arena_float(x[i]) - mean) * scale * arena_float(weight[i]) +
                                 arena_float(bias[i]));
    }
}

extern "C" int layer_norm(const layer_norm_args* args, hipStream_t stream) {
    const bool vectors = args->cols % VECTOR == 0;
    const int64_t loads = vectors ? args->cols / VECTOR : args->cols;
    int threads = 32;
    while (threads < THREADS && threads < loads) threads *= 2;
    const auto kernel = vectors ? layer_norm_kernel<true> : layer_norm_kernel<false>;
    kernel<<<args->rows, threads, 0, stream>>>(args->x, args->weight, args->bias, args->out,
                                               args->cols, args->eps);
    return hipGetLastError();
}
