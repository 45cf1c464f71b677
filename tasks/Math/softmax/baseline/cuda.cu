// Softmax, a warp for a short row and a block for a long one: maximum and sum in one loop,
// quotients in another.
// arena: tune-flags "-O3" "-O3 -use_fast_math"
// arena: flags -O3
#include "softmax.h"

#include <cfloat>

// Threads of a block.
// arena: tune THREADS 128 256 512 1024
#define THREADS 256

// A row of at most so many columns is left to one warp.
// arena: tune SHORT_ROW 256 512 1024 2048
#define SHORT_ROW 1024

constexpr int WARP = 32;

// Sixteen bytes at a time, where every row begins at a multiple of them.
constexpr int WIDE = 16 / sizeof(arena_t);

template <int N>
struct alignas(N * sizeof(arena_t)) Pack {
    arena_t values[N];
};

// Of some elements: the largest, and the sum of the exponentials of all less the largest.
struct Part {
    float top, sum;
};

__device__ Part joined(Part a, Part b) {
    const float top = fmaxf(a.top, b.top);
    return {top, a.sum * expf(a.top - top) + b.sum * expf(b.top - top)};
}

template <int LANES>
__device__ Part joined_lanes(Part part) {
    for (int step = WARP / 2; step; step /= 2)
        part = joined(part, {__shfl_xor_sync(~0u, part.top, step),
                             __shfl_xor_sync(~0u, part.sum, step)});
    if constexpr (LANES > WARP) {
        __shared__ Part parts[LANES / WARP];
        if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = part;
        __syncthreads();
        part = parts[0];
        for (int i = 1; i < LANES / WARP; ++i) part = joined(part, parts[i]);
    }
    return part;
}

template <int LANES, int N>
__global__ void __launch_bounds__(THREADS) softmax_kernel(softmax_args args) {
    const int64_t row = blockIdx.x * int64_t(THREADS / LANES) + threadIdx.x / LANES;
    if (row >= args.rows) return;
    const auto* x = reinterpret_cast<const Pack<N>*>(args.x + row * args.cols);
    auto* out = reinterpret_cast<Pack<N>*>(args.out + row * args.cols);
    const int packs = int(args.cols / N), lane = threadIdx.x % LANES;

    Part part = {-FLT_MAX, 0};
    for (int i = lane; i < packs; i += LANES) {
        const Pack<N> pack = x[i];
        float top = part.top;
        for (int j = 0; j < N; ++j) top = fmaxf(top, arena_float(pack.values[j]));
        part = {top, part.sum * expf(part.top - top)};
        for (int j = 0; j < N; ++j) part.sum += expf(arena_float(pack.values[j]) - top);
    }
    part = joined_lanes<LANES>(part);
    const float scale = 1 / part.sum;

    for (int i = lane; i < packs; i += LANES) {
        Pack<N> pack = x[i];
        for (int j = 0; j < N; ++j)
            pack.values[j] = arena_value(expf(arena_float(pack.values[j]) - part.top) * scale);
        out[i] = pack;
    }
}

template <int LANES, int N>
static void launch(const softmax_args& args, cudaStream_t stream) {
    const int64_t rows = THREADS / LANES, blocks = (args.rows + rows - 1) / rows;
    softmax_kernel<LANES, N><<<unsigned(blocks), THREADS, 0, stream>>>(args);
}

extern "C" int softmax(const softmax_args* args, cudaStream_t stream) {
    const bool wide =
        args->cols % WIDE == 0 && (uintptr_t(args->x) | uintptr_t(args->out)) % 16 == 0;
    if (args->cols <= SHORT_ROW)
        wide ? launch<WARP, WIDE>(*args, stream) : launch<WARP, 1>(*args, stream);
    else
        wide ? launch<THREADS, WIDE>(*args, stream) : launch<THREADS, 1>(*args, stream);
    return cudaGetLastError();
}
