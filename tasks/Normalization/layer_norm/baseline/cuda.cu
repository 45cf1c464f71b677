// Layer norm: short rows in the registers of a warp, longer ones in the shared memory of a block.
// arena: tune-flags "-O3" "-O3 -use_fast_math" "-O3 -maxrregcount=64"
// arena: flags -O3
#include "layer_norm.h"

// Threads that share a longer row.
// arena: tune THREADS 128 256 512 1024
#define THREADS 256

// Rows of at most this many columns are left to a warp each.
// arena: tune SHORT 128 256 512 1024
#define SHORT 512

constexpr int WARP = 32;
constexpr int VECTOR = 16 / sizeof(arena_t);
constexpr int64_t KEPT_BYTES = 48 << 10;

struct alignas(16) Vector {
    arena_t values[VECTOR];
};

static __device__ float warp_sum(float value) {
    for (int step = WARP / 2; step; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
}

static __device__ float block_sum(float value) {
    __shared__ float parts[THREADS / WARP];
    value = warp_sum(value);
    __syncthreads();  // everyone has read the parts of the sum before
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = value;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < THREADS / WARP; ++i) sum += parts[i];
    return sum;
}

// Calls `take(value)` for every element of this thread's share of a row, and keeps them in `kept`.
template <bool VECTORS, class Take>
static __device__ void each(const arena_t* x, arena_t* kept, int64_t cols, Take take) {
    if (VECTORS) {
        for (int64_t i = threadIdx.x; i < cols / VECTOR; i += THREADS) {
            const Vector vector = reinterpret_cast<const Vector*>(x)[i];
            if (kept) reinterpret_cast<Vector*>(kept)[i] = vector;
#pragma unroll
            for (int j = 0; j < VECTOR; ++j) take(arena_float(vector.values[j]));
        }
    } else {
        for (int64_t i = threadIdx.x; i < cols; i += THREADS) {
            const arena_t value = x[i];
            if (kept) kept[i] = value;
            take(arena_float(value));
        }
    }
}

// One block a row. With KEEP it is read once and kept; a thread reads back what it wrote itself.
template <bool VECTORS, bool KEEP>
static __global__ void __launch_bounds__(THREADS)
    long_rows(const arena_t* x, const arena_t* weight, const arena_t* bias, arena_t* out,
              int64_t cols, float eps) {
    extern __shared__ __align__(16) unsigned char memory[];
    arena_t* kept = KEEP ? reinterpret_cast<arena_t*>(memory) : nullptr;
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;

    float sum = 0;
    each<VECTORS>(x, kept, cols, [&](float value) { sum += value; });
    const float mean = block_sum(sum) / cols;
    if (KEEP) x = kept;

    float squares = 0;
    each<VECTORS>(x, nullptr, cols, [&](float value) {
        squares += (value - mean) * (value - mean);
    });
    const float scale = 1 / sqrtf(block_sum(squares) / cols + eps);

    if (VECTORS) {
        for (int64_t i = threadIdx.x; i < cols / VECTOR; i += THREADS) {
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
        for (int64_t i = threadIdx.x; i < cols; i += THREADS)
            out[i] = arena_value((arena_float(x[i]) - mean) * scale * arena_float(weight[i]) +
                                 arena_float(bias[i]));
    }
}

// One warp a row, which its lanes hold.
static __global__ void __launch_bounds__(THREADS)
    short_rows(const arena_t* x, const arena_t* weight, const arena_t* bias, arena_t* out,
               int64_t rows, int cols, float eps) {
    const int lane = threadIdx.x % WARP;
    const int64_t row = blockIdx.x * int64_t(THREADS / WARP) + threadIdx.x / WARP;
    if (row >= rows) return;
    x += row * cols;
    out += row * cols;

    float values[SHORT / WARP];
    float sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < SHORT / WARP; ++i) {
        const int col = i * WARP + lane;
        values[i] = col < cols ? arena_float(x[col]) : 0.0f;
        sum += values[i];
    }
    const float mean = warp_sum(sum) / cols;
#pragma unroll
    for (int i = 0; i < SHORT / WARP; ++i) {
        values[i] -= mean;
        if (i * WARP + lane < cols) squares += values[i] * values[i];
    }
    const float scale = 1 / sqrtf(warp_sum(squares) / cols + eps);
#pragma unroll
    for (int i = 0; i < SHORT / WARP; ++i) {
        const int col = i * WARP + lane;
        if (col < cols)
            out[col] = arena_value(values[i] * scale * arena_float(weight[col]) +
                                   arena_float(bias[col]));
    }
}

template <bool VECTORS>
static void launch_long(const layer_norm_args* args, cudaStream_t stream) {
    const int64_t bytes = args->cols * int64_t(sizeof(arena_t));
    if (bytes <= KEPT_BYTES)
        long_rows<VECTORS, true><<<args->rows, THREADS, bytes, stream>>>(
            args->x, args->weight, args->bias, args->out, args->cols, args->eps);
    else
        long_rows<VECTORS, false><<<args->rows, THREADS, 0, stream>>>(
            args->x, args->weight, args->bias, args->out, args->cols, args->eps);
}

extern "C" int layer_norm(const layer_norm_args* args, cudaStream_t stream) {
    if (args->cols <= SHORT) {
        constexpr int height = THREADS / WARP;
        short_rows<<<(args->rows + height - 1) / height, THREADS, 0, stream>>>(
            args->x, args->weight, args->bias, args->out, args->rows, args->cols, args->eps);
    } else if (args->cols % VECTOR == 0) {
        launch_long<true>(args, stream);
    } else {
        launch_long<false>(args, stream);
    }
    return cudaGetLastError();
}
