// RMS norm, a group of lanes for a short row and a block for a long one: once over it for the
// squares, once to scale.
// arena: tune-flags "-O3" "-O3 -use_fast_math"
// arena: flags -O3
#include "rms_norm.h"

// Threads of a block.
// arena: tune THREADS 128 256 512 1024
#define THREADS 256

// A row of at most so many columns is left to one group of lanes.
// arena: tune SHORT_ROW 256 512 1024 2048
#define SHORT_ROW 1024

// So many lanes share a short row: they divide a wave, be it of 32 or 64.
constexpr int GROUP = 32;

// Sixteen bytes at a time, where every row begins at a multiple of them.
constexpr int WIDE = 16 / sizeof(arena_t);

template <int N>
struct alignas(N * sizeof(arena_t)) Pack {
    arena_t values[N];
};

template <int LANES>
__device__ float sum_of_lanes(float value) {
    for (int step = GROUP / 2; step; step /= 2) value += __shfl_xor(value, step, GROUP);
    if constexpr (LANES > GROUP) {
        __shared__ float sums[LANES / GROUP];
        if (threadIdx.x % GROUP == 0) sums[threadIdx.x / GROUP] = value;
        __syncthreads();
        value = 0;
        for (float sum : sums) value += sum;
    }
    return value;
}

template <int LANES, int N>
__global__ void __launch_bounds__(THREADS) rms_norm_kernel(rms_norm_args args) {
    const int64_t row = blockIdx.x * int64_t(THREADS / LANES) + threadIdx.x / LANES;
    if (row >= args.rows) return;
    const auto* x = reinterpret_cast<const Pack<N>*>(args.x + row * args.cols);
    const auto* weight = reinterpret_cast<const Pack<N>*>(args.weight);
    auto* out = reinterpret_cast<Pack<N>*>(args.out + row * args.cols);
    const int packs = int(args.cols / N), lane = threadIdx.x % LANES;

    float squares = 0;
    for (int i = lane; i < packs; i += LANES) {
        const Pack<N> pack = x[i];
        for (int j = 0; j < N; ++j) {
            const float value = arena_float(pack.values[j]);
            squares += value * value;
        }
    }
    const float scale = rsqrtf(sum_of_lanes<LANES>(squares) / float(args.cols) + args.eps);

    for (int i = lane; i < packs; i += LANES) {
        Pack<N> pack = x[i];
        const Pack<N> weights = weight[i];
        for (int j = 0; j < N; ++j)
            pack.values[j] = arena_value(arena_float(pack.values[j]) * scale *
                                         arena_float(weights.values[j]));
        out[i] = pack;
    }
}

template <int LANES, int N>
static void launch(const rms_norm_args& args, hipStream_t stream) {
    const int64_t rows = THREADS / LANES, blocks = (args.rows + rows - 1) / rows;
    rms_norm_kernel<LANES, N><<<unsigned(blocks), THREADS, 0, stream>>>(args);
}

extern "C" int rms_norm(const rms_norm_args* args, hipStream_t stream) {
    const uintptr_t places = uintptr_t(args->x) | uintptr_t(args->weight) | uintptr_t(args->out);
    const bool wide = args->cols % WIDE == 0 && places % 16 == 0;
    if (args->cols <= SHORT_ROW)
        wide ? launch<GROUP, WIDE>(*args, stream) : launch<GROUP, 1>(*args, stream);
    else
        wide ? launch<THREADS, WIDE>(*args, stream) : launch<THREADS, 1>(*args, stream);
    return hipGetLastError();
}
