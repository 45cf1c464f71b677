// 2D convolution as a matrix product of pixels and filters, whose left operand is gathered from the
// images as it is needed: float32 tiles in shared memory. No width of a wave is assumed.
// arena: tune-flags "-O2" "-O3" "-O3 -use_fast_math"
// arena: flags -O3
#include "conv2d.h"

// The tile of a block of 16 x 16 threads where there is much to do: pixels and filters.
// arena: tune TILE_M 32 64 128
#define TILE_M 128
// arena: tune TILE_N 32 64 128
#define TILE_N 64
// Loads of sixteen bytes that a step along the sum takes for a pixel.
// arena: tune CHUNKS 1 2 4
#define CHUNKS 2

// Blocks that there should be at least; else tiles are smaller.
// arena: tune LEAST_BLOCKS 66 132 304
#define LEAST_BLOCKS 132

constexpr int THREADS = 256;
constexpr int VECTOR = 16 / sizeof(arena_t);
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

// M pixels by N filters a block. With VECTORS a load of sixteen bytes lies within one tap.
template <int M, int N, bool VECTORS>
static __global__ void __launch_bounds__(THREADS) conv2d_kernel(const Problem p) {
    __shared__ float a[STEP][M + 1], b[STEP][N + 1];
    const int64_t first_pixel = int64_t(blockIdx.x) * M;
    const int first_filter = blockIdx.y * N;
    const int tall = p.height * p.stride, wide = p.width * p.stride;
    const int down = threadIdx.x / 16, across = threadIdx.x % 16;

    float sums[M / 16][N / 16] = {};
    for (int first = 0; first < p.depth; first += STEP) {
        for (int place = threadIdx.x; place < M * CHUNKS; place += THREADS) {
            const int row = place / CHUNKS, chunk = place % CHUNKS;
            const int64_t pixel = first_pixel + row;
            const int64_t image = pixel / (int64_t(p.height) * p.width);
            const int within = pixel - image * p.height * p.width;
            const arena_t* from = p.x + image * tall * wide * p.channels;
            const int top = within / p.width * p.stride - p.kernel / 2;
            const int left = within % p.width * p.stride - p.kernel / 2;
            const int at = first + chunk * VECTOR;
            // Where the summand of a depth lies, or nowhere.
            auto source = [&](int depth) -> const arena_t* {
                const int tap = depth / p.channels, channel = depth % p.channels;
                const int y = top + tap / p.kernel, z = left + tap % p.kernel;
                const bool inside = y >= 0 && y < tall && z >= 0 && z < wide;
                if (!inside || pixel >= p.pixels || depth >= p.depth) return nullptr;
                return from + (int64_t(y) * wide + z) * p.channels + channel;
            };
            if constexpr (VECTORS) {
                const arena_t* begin = source(at);
                const Vector values = begin ? *reinterpret_cast<const Vector*>(begin) : Vector{};
#pragma unroll
                for (int l = 0; l < VECTOR; ++l)
                    a[chunk * VECTOR + l][row] = arena_float(values.values[l]);
            } else {
#pragma unroll
                for (int l = 0; l < VECTOR; ++l) {
                    const arena_t* begin = source(at + l);
                    a[chunk * VECTOR + l][row] = begin ? arena_float(*begin) : 0.0f;
                }
            }
        }
        for (int place = threadIdx.x; place < N * CHUNKS; place += THREADS) {
            const int row = place / CHUNKS, chunk = place % CHUNKS;
            const int filter = first_filter + row, at = first + chunk * VECTOR;
            const arena_t* from = p.weight + int64_t(filter) * p.depth + at;
            if constexpr (VECTORS) {
                const bool known = filter < p.filters && at < p.depth;
                const Vector values = known ? *reinterpret_cast<const Vector*>(from) : Vector{};
#pragma unroll
                for (int l = 0; l < VECTOR; ++l)
                    b[chunk * VECTOR + l][row] = arena_float(values.values[l]);
            } else {
#pragma unroll
                for (int l = 0; l < VECTOR; ++l) {
                    const bool known = filter < p.filters && at + l < p.depth;
                    b[chunk * VECTOR + l][row] = known ? arena_float(from[l]) : 0.0f;
                }
            }
        }
        __syncthreads();
#pragma unroll
        for (int l = 0; l < STEP; ++l) {
            float left[M / 16], right[N / 16];
#pragma unroll
            for (int i = 0; i < M / 16; ++i) left[i] = a[l][down + 16 * i];
#pragma unroll
            for (int j = 0; j < N / 16; ++j) right[j] = b[l][across + 16 * j];
#pragma unroll
            for (int i = 0; i < M / 16; ++i)
#pragma unroll
                for (int j = 0; j < N / 16; ++j) sums[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < M / 16; ++i)
#pragma unroll
        for (int j = 0; j < N / 16; ++j) {
            const int64_t pixel = first_pixel + down + 16 * i;
            const int filter = first_filter + across + 16 * j;
            if (pixel < p.pixels && filter < p.filters)
                p.out[pixel * p.filters + filter] =
                    arena_value(sums[i][j] + arena_float(p.bias[filter]));
        }
}

template <int M, int N>
static void launch(const Problem& p, hipStream_t stream) {
    const dim3 grid((p.pixels + M - 1) / M, (p.filters + N - 1) / N);
    if (p.channels % VECTOR == 0)
        conv2d_kernel<M, N, true><<<grid, THREADS, 0, stream>>>(p);
    else
        conv2d_kernel<M, N, false><<<grid, THREADS, 0, stream>>>(p);
}

extern "C" int conv2d(const conv2d_args* args, hipStream_t stream) {
    Problem p = {args->x, args->weight, args->bias, args->out};
    p.pixels = args->batch * args->height * args->width;
    p.height = args->height;
    p.width = args->width;
    p.channels = args->channels;
    p.filters = args->filters;
    p.kernel = args->kernel;
    p.stride = args->stride;
    p.depth = args->kernel * args->kernel * args->channels;
    const int64_t blocks = (p.pixels + TILE_M - 1) / TILE_M * ((p.filters + TILE_N - 1) / TILE_N);
    if (blocks < LEAST_BLOCKS)
        launch<32, 32>(p, stream);
    else
        launch<TILE_M, TILE_N>(p, stream);
    return hipGetLastError();
}
