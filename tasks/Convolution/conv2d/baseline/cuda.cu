// 2D convolution as a matrix product of pixels and filters, whose left operand is gathered from the
// images as it is needed: on tensor cores, or in float32 without them.
// arena: tune-flags "-O3" "-O3 -use_fast_math" "-O3 -maxrregcount=128"
// arena: flags -O3
#include "conv2d.h"

#include <mma.h>

// The tile of a block where there is much to do: pixels and filters.
// arena: tune TILE_M 64 128 256
#define TILE_M 128
// arena: tune TILE_N 64 128 256
#define TILE_N 128

// Blocks that there should be at least; else tiles are smaller.
// arena: tune LEAST_BLOCKS 66 132 264
#define LEAST_BLOCKS 132

constexpr int THREADS = 256;
constexpr int VECTOR = 16 / sizeof(arena_t);
constexpr int CHUNKS = 4;  // loads of sixteen bytes that a step along the sum takes for a pixel
constexpr int STEP = CHUNKS * VECTOR;

struct alignas(16) Vector {
    arena_t values[VECTOR];
};

// The operands; `depth` is how many products a result sums, `pixels` how many results a filter has.
struct Problem {
    const arena_t *x, *weight, *bias;
    arena_t* out;
    int64_t pixels;
    int height, width, channels, filters, kernel, stride, depth;
};

// A row in shared memory holds one load more than it needs, so that rows start at different banks.
template <int ROWS>
using Tile = Vector[ROWS][CHUNKS + 1];

#if ARENA_FLOAT32

// Sums of a block of 16 x 16 threads, every sixteenth pixel and filter each.
template <int M, int N>
struct Sums {
    float sums[M / 16][N / 16] = {};

    __device__ void add(const Tile<M>& a, const Tile<N>& b) {
        const int down = threadIdx.x / 16, across = threadIdx.x % 16;
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; ++chunk) {
            Vector right[N / 16];
#pragma unroll
            for (int j = 0; j < N / 16; ++j) right[j] = b[across + 16 * j][chunk];
#pragma unroll
            for (int i = 0; i < M / 16; ++i) {
                const Vector left = a[down + 16 * i][chunk];
#pragma unroll
                for (int j = 0; j < N / 16; ++j)
#pragma unroll
                    for (int l = 0; l < VECTOR; ++l)
                        sums[i][j] += left.values[l] * right[j].values[l];
            }
        }
    }

    __device__ void write(const Problem& p, int64_t top, int left, void*) {
        const int down = threadIdx.x / 16, across = threadIdx.x % 16;
#pragma unroll
        for (int i = 0; i < M / 16; ++i)
#pragma unroll
            for (int j = 0; j < N / 16; ++j) {
                const int64_t pixel = top + down + 16 * i;
                const int filter = left + across + 16 * j;
                if (pixel < p.pixels && filter < p.filters)
                    p.out[pixel * p.filters + filter] = sums[i][j] + p.bias[filter];
            }
    }
};

#else

namespace wmma = nvcuda::wmma;

// Sums of 2 x 4 warps, each of fragments of 16 x 16.
template <int M, int N>
struct Sums {
    static constexpr int TILES_M = M / 2 / 16, TILES_N = N / 4 / 16, PITCH = STEP + VECTOR;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[TILES_M][TILES_N];

    __device__ Sums() {
        for (auto& row : sums)
            for (auto& sum : row) wmma::fill_fragment(sum, 0.0f);
    }

    __device__ void add(const Tile<M>& a, const Tile<N>& b) {
        const int warp = threadIdx.x / 32;
        const int down = warp / 4 * TILES_M * 16, across = warp % 4 * TILES_N * 16;
#pragma unroll
        for (int step = 0; step < STEP; step += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, arena_t, wmma::row_major> left[TILES_M];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, arena_t, wmma::col_major> right[TILES_N];
#pragma unroll
            for (int i = 0; i < TILES_M; ++i)
                wmma::load_matrix_sync(left[i], a[down + i * 16][step / VECTOR].values, PITCH);
#pragma unroll
            for (int j = 0; j < TILES_N; ++j)
                wmma::load_matrix_sync(right[j], b[across + j * 16][step / VECTOR].values, PITCH);
#pragma unroll
            for (int i = 0; i < TILES_M; ++i)
#pragma unroll
                for (int j = 0; j < TILES_N; ++j)
                    wmma::mma_sync(sums[i][j], left[i], right[j], sums[i][j]);
        }
    }

    // Through `memory`, shared, of 1 KiB a warp, since a fragment does not say what it holds where.
    __device__ void write(const Problem& p, int64_t top, int left, void* memory) {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        float* staged = static_cast<float*>(memory) + warp * 256;
        top += warp / 4 * TILES_M * 16;
        left += warp % 4 * TILES_N * 16;
        for (int i = 0; i < TILES_M; ++i) {
            for (int j = 0; j < TILES_N; ++j) {
                wmma::store_matrix_sync(staged, sums[i][j], 16, wmma::mem_row_major);
                __syncwarp();
                for (int place = lane; place < 256; place += 32) {
                    const int64_t pixel = top + i * 16 + place / 16;
                    const int filter = left + j * 16 + place % 16;
                    if (pixel < p.pixels && filter < p.filters)
                        p.out[pixel * p.filters + filter] =
                            arena_value(staged[place] + arena_float(p.bias[filter]));
                }
                __syncwarp();
            }
        }
    }
};

#endif

// Where a pixel's filter begins: its image, and its first row and column, which may lie outside.
struct Corner {
    const arena_t* image;
    int top, left;
};

// M pixels by N filters a block. With VECTORS a load of sixteen bytes lies within one tap.
template <int M, int N, bool VECTORS>
static __global__ void __launch_bounds__(THREADS) conv2d_kernel(const Problem p) {
    constexpr int LOADS_M = M * CHUNKS / THREADS, LOADS_N = N * CHUNKS / THREADS;
    constexpr int ROWS = THREADS / CHUNKS;  // of a tile that the block loads at a time
    static_assert(LOADS_M >= 1 && LOADS_N >= 1 && M % 32 == 0 && N % 64 == 0, "tiles");
    __shared__ __align__(128) Tile<M> a[2];
    __shared__ __align__(128) Tile<N> b[2];

    const int64_t first_pixel = int64_t(blockIdx.x) * M;
    const int first_filter = blockIdx.y * N;
    const int chunk = threadIdx.x % CHUNKS, row = threadIdx.x / CHUNKS;
    const int tall = p.height * p.stride, wide = p.width * p.stride;

    Corner corners[LOADS_M];
#pragma unroll
    for (int i = 0; i < LOADS_M; ++i) {
        const int64_t pixel = first_pixel + row + i * ROWS;
        const int64_t image = pixel / (int64_t(p.height) * p.width);
        const int within = pixel - image * p.height * p.width;
        corners[i].image = p.x + image * tall * wide * p.channels;
        corners[i].top = within / p.width * p.stride - p.kernel / 2;
        corners[i].left = within % p.width * p.stride - p.kernel / 2;
        if (pixel >= p.pixels) corners[i].top = -(1 << 28);  // outside whatever the tap
    }

    Vector a_next[LOADS_M], b_next[LOADS_N];
    auto load = [&](int first) {
        const int at = first + chunk * VECTOR;
        if constexpr (VECTORS) {
            const int tap = at / p.channels, channel = at % p.channels;
            const int down = tap / p.kernel, across = tap % p.kernel;
#pragma unroll
            for (int i = 0; i < LOADS_M; ++i) {
                const int y = corners[i].top + down, z = corners[i].left + across;
                const bool inside = at < p.depth && y >= 0 && y < tall && z >= 0 && z < wide;
                const int64_t place = (int64_t(y) * wide + z) * p.channels + channel;
                a_next[i] =
                    inside ? *reinterpret_cast<const Vector*>(corners[i].image + place) : Vector{};
            }
        } else {
#pragma unroll
            for (int l = 0; l < VECTOR; ++l) {
                const int tap = (at + l) / p.channels, channel = (at + l) % p.channels;
                const int down = tap / p.kernel, across = tap % p.kernel;
#pragma unroll
                for (int i = 0; i < LOADS_M; ++i) {
                    const int y = corners[i].top + down, z = corners[i].left + across;
                    const bool known = at + l < p.depth && y >= 0 && y < tall;
                    const bool inside = known && z >= 0 && z < wide;
                    const int64_t place = (int64_t(y) * wide + z) * p.channels + channel;
                    a_next[i].values[l] = inside ? corners[i].image[place] : arena_value(0.0f);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < LOADS_N; ++i) {
            const int filter = first_filter + row + i * ROWS;
            const arena_t* from = p.weight + int64_t(filter) * p.depth + at;
            if constexpr (VECTORS) {
                const bool known = filter < p.filters && at < p.depth;
                b_next[i] = known ? *reinterpret_cast<const Vector*>(from) : Vector{};
            } else {
#pragma unroll
                for (int l = 0; l < VECTOR; ++l) {
                    const bool known = filter < p.filters && at + l < p.depth;
                    b_next[i].values[l] = known ? from[l] : arena_value(0.0f);
                }
            }
        }
    };
    auto store = [&](int buffer) {
#pragma unroll
        for (int i = 0; i < LOADS_M; ++i) a[buffer][row + i * ROWS][chunk] = a_next[i];
#pragma unroll
        for (int i = 0; i < LOADS_N; ++i) b[buffer][row + i * ROWS][chunk] = b_next[i];
    };

    Sums<M, N> sums;
    load(0);
    store(0);
    __syncthreads();
    int buffer = 0;
    for (int first = 0; first < p.depth; first += STEP) {
        const bool more = first + STEP < p.depth;
        if (more) load(first + STEP);
        sums.add(a[buffer], b[buffer]);
        buffer ^= 1;
        if (more) store(buffer);  // nobody reads it: all are past the barrier before this step
        __syncthreads();
    }
    sums.write(p, first_pixel, first_filter, a);
}

template <int M, int N>
static void launch(const Problem& p, cudaStream_t stream) {
    const dim3 grid((p.pixels + M - 1) / M, (p.filters + N - 1) / N);
    if (p.channels % VECTOR == 0)
        conv2d_kernel<M, N, true><<<grid, THREADS, 0, stream>>>(p);
    else
        conv2d_kernel<M, N, false><<<grid, THREADS, 0, stream>>>(p);
}

extern "C" int conv2d(const conv2d_args* args, cudaStream_t stream) {
    Problem p = {args->x, args->weight, args->bias, args->out};
    p.pixels = args->batch * args->height * args->width;
    p.height = args->height;
    p.width = args->width;
    p.channels = args->channels;
    p.filters = args->filters;
    p.kernel = args->kernel;
    p.stride = args->stride;
    p.depth = args->kernel * args->kernel * args->channels;
    const int64_t blocks =
        (p.pixels + TILE_M - 1) / TILE_M * ((p.filters + TILE_N - 1) / TILE_N);
    if (blocks < LEAST_BLOCKS)
        launch<64, 64>(p, stream);
    else if (p.filters <= 64)
        launch<TILE_M, 64>(p, stream);
    else
        launch<TILE_M, TILE_N>(p, stream);
    return cudaGetLastError();
}
