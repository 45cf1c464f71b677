// W8A8 matrix multiplication: one kernel quantises rows into a workspace that fits the cache,
// another multiplies them in tiles, four bytes of k at a time. No width of a wave is assumed.
// arena: tune-flags "-O2" "-O3" "-O3 -use_fast_math"
// arena: flags -O3
#include "int8_matmul.h"

// The tile of a block of 16 x 16 threads where there are many rows, and its loads a step along k.
// arena: tune TILE_M 32 64 128
#define TILE_M 128
// arena: tune TILE_N 32 64 128
#define TILE_N 128
// arena: tune LOADS 1 2 4
#define LOADS 2

// Rows up to which narrow tiles are taken: more blocks, each reading less of the weights.
// arena: tune FEW_ROWS 16 32 64
#define FEW_ROWS 32

constexpr int CHUNK = 16;  // bytes of a load
constexpr int WORDS = 4;   // of four bytes in a load
constexpr int THREADS = 256;
constexpr int64_t WORKSPACE = 32 << 20;
constexpr int64_t MOST_ROWS = 1 << 16;

struct alignas(16) Chunk {
    int words[WORDS];
};

static __device__ Chunk workspace[WORKSPACE / CHUNK];
static __device__ float row_scales[MOST_ROWS];

// The sum plus four products of signed bytes.
static __device__ int dot(int a, int b, int sum) {
#if defined(__HIP_PLATFORM_AMD__)
    return __builtin_amdgcn_sdot4(a, b, sum, false);
#else
    return __dp4a(a, b, sum);
#endif
}

// One block a row. Rows of the workspace are `pitch` long; what lies behind k is zero.
static __global__ void __launch_bounds__(THREADS)
    quantise(const arena_t* x, int64_t k, int64_t pitch) {
    __shared__ float parts[THREADS];
    x += blockIdx.x * k;
    int8_t* whole = reinterpret_cast<int8_t*>(workspace) + blockIdx.x * pitch;
    float largest = 0;
    for (int64_t i = threadIdx.x; i < k; i += THREADS)
        largest = fmaxf(largest, fabsf(arena_float(x[i])));
    parts[threadIdx.x] = largest;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            parts[threadIdx.x] = fmaxf(parts[threadIdx.x], parts[threadIdx.x + half]);
    }
    __syncthreads();
    const float scale = parts[0] / 127.0f, divisor = scale > 0 ? scale : 1.0f;
    if (threadIdx.x == 0) row_scales[blockIdx.x] = scale;
    for (int64_t i = threadIdx.x; i < pitch; i += THREADS)
        whole[i] = i < k ? int8_t(rintf(arena_float(x[i]) / divisor)) : 0;
}

// Sixteen weights from `at` on, zeros behind `k`.
template <bool ALIGNED>
static __device__ Chunk weights_at(const int8_t* row, int64_t at, int64_t k) {
    if constexpr (ALIGNED) {
        return at < k ? *reinterpret_cast<const Chunk*>(row + at) : Chunk{};
    } else {
        Chunk chunk = {};
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) {
            const unsigned byte = at + i < k ? uint8_t(row[at + i]) : 0;
            chunk.words[i / 4] |= int(byte << i % 4 * 8);
        }
        return chunk;
    }
}

// A tile of M x N results by 16 x 16 threads, every sixteenth row and column each.
template <int M, int N, bool ALIGNED>
static __global__ void __launch_bounds__(THREADS)
    multiply(const int8_t* weight, const float* scales, arena_t* out, int64_t m, int64_t n,
             int64_t k, int64_t pitch) {
    __shared__ int left[LOADS * WORDS][M + 1], right[LOADS * WORDS][N + 1];
    const int64_t top = int64_t(blockIdx.x) * M, first_col = int64_t(blockIdx.y) * N;
    const int down = threadIdx.x / 16, across = threadIdx.x % 16;
    const int8_t* whole = reinterpret_cast<const int8_t*>(workspace);

    int sums[M / 16][N / 16] = {};
    for (int64_t first = 0; first < k; first += LOADS * CHUNK) {
        for (int place = threadIdx.x; place < M * LOADS; place += THREADS) {
            const int i = place / LOADS, part = place % LOADS;
            const int64_t row = top + i, at = first + part * CHUNK;
            Chunk chunk = {};
            if (row < m && at < pitch)
                chunk = *reinterpret_cast<const Chunk*>(whole + row * pitch + at);
#pragma unroll
            for (int w = 0; w < WORDS; ++w) left[part * WORDS + w][i] = chunk.words[w];
        }
        for (int place = threadIdx.x; place < N * LOADS; place += THREADS) {
            const int j = place / LOADS, part = place % LOADS;
            const int64_t col = first_col + j, at = first + part * CHUNK;
            Chunk chunk = {};
            if (col < n) chunk = weights_at<ALIGNED>(weight + col * k, at, k);
#pragma unroll
            for (int w = 0; w < WORDS; ++w) right[part * WORDS + w][j] = chunk.words[w];
        }
        __syncthreads();
#pragma unroll
        for (int w = 0; w < LOADS * WORDS; ++w) {
            int a[M / 16], b[N / 16];
#pragma unroll
            for (int i = 0; i < M / 16; ++i) a[i] = left[w][down + 16 * i];
#pragma unroll
            for (int j = 0; j < N / 16; ++j) b[j] = right[w][across + 16 * j];
#pragma unroll
            for (int i = 0; i < M / 16; ++i)
#pragma unroll
                for (int j = 0; j < N / 16; ++j) sums[i][j] = dot(a[i], b[j], sums[i][j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < M / 16; ++i)
#pragma unroll
        for (int j = 0; j < N / 16; ++j) {
            const int64_t row = top + down + 16 * i, col = first_col + across + 16 * j;
            if (row < m && col < n)
                out[row * n + col] = arena_value(float(sums[i][j]) * row_scales[row] * scales[col]);
        }
}

template <int M, int N>
static void launch(const int8_matmul_args* args, arena_t* out, int64_t rows, int64_t pitch,
                   hipStream_t stream) {
    const dim3 grid((rows + M - 1) / M, (args->n + N - 1) / N);
    const auto kernel = args->k % CHUNK ? multiply<M, N, false> : multiply<M, N, true>;
    kernel<<<grid, THREADS, 0, stream>>>(args->weight, args->scales, out, rows, args->n, args->k,
                                         pitch);
}

extern "C" int int8_matmul(const int8_matmul_args* args, hipStream_t stream) {
    const int64_t k = args->k, pitch = (k + CHUNK - 1) / CHUNK * CHUNK;
    const int64_t fit = WORKSPACE / pitch < MOST_ROWS ? WORKSPACE / pitch : MOST_ROWS;
    const int64_t stretch = fit / TILE_M * TILE_M;
    if (stretch == 0) return 1;
    for (int64_t row = 0; row < args->m; row += stretch) {
        const int64_t rows = args->m - row < stretch ? args->m - row : stretch;
        arena_t* out = args->out + row * args->n;
        quantise<<<rows, THREADS, 0, stream>>>(args->x + row * k, k, pitch);
        if (rows <= FEW_ROWS)
            launch<16, 64>(args, out, rows, pitch, stream);
        else
            launch<TILE_M, TILE_N>(args, out, rows, pitch, stream);
    }
    return hipGetLastError();
}
