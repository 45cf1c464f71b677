// W8A8 matrix multiplication: one kernel quantises rows into a workspace that fits the cache,
// another multiplies them on tensor cores. Many rows go through both in stretches.
// arena: tune-flags "-O3" "-O3 -use_fast_math" "-O3 -maxrregcount=128"
// arena: flags -O3
#include "int8_matmul.h"

#include <mma.h>

// The tile of a block where there are many rows, and the steps it goes along k in.
// arena: tune TILE_M 64 128 256
#define TILE_M 128
// arena: tune TILE_N 64 128 256
#define TILE_N 128
// arena: tune TILE_K 32 64 128
#define TILE_K 64

// Rows up to which narrow tiles are taken: more blocks, each reading less of the weights.
// arena: tune FEW_ROWS 16 32 64
#define FEW_ROWS 32

namespace wmma = nvcuda::wmma;

constexpr int CHUNK = 16;  // bytes of a load, and k of one product of fragments
constexpr int64_t WORKSPACE = 32 << 20;
constexpr int64_t MOST_ROWS = 1 << 16;
constexpr int QUANTISERS = 256;

static __device__ __align__(16) int8_t workspace[WORKSPACE];
static __device__ float row_scales[MOST_ROWS];

static __device__ float block_max(float value) {
    __shared__ float parts[QUANTISERS / 32];
    for (int step = 16; step; step /= 2) value = fmaxf(value, __shfl_xor_sync(~0u, value, step));
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    for (int i = 0; i < QUANTISERS / 32; ++i) value = fmaxf(value, parts[i]);
    return value;
}

// One block a row. Rows of the workspace are `pitch` long; what lies behind k is zero.
static __global__ void __launch_bounds__(QUANTISERS)
    quantise(const arena_t* x, int64_t k, int64_t pitch) {
    x += blockIdx.x * k;
    int8_t* whole = workspace + blockIdx.x * pitch;
    float largest = 0;
    for (int64_t i = threadIdx.x; i < k; i += QUANTISERS)
        largest = fmaxf(largest, fabsf(arena_float(x[i])));
    const float scale = __fdiv_rn(block_max(largest), 127.0f);
    if (threadIdx.x == 0) row_scales[blockIdx.x] = scale;
    const float divisor = scale > 0 ? scale : 1.0f;
    for (int64_t i = threadIdx.x; i < pitch; i += QUANTISERS)
        whole[i] = i < k ? __float2int_rn(__fdiv_rn(arena_float(x[i]), divisor)) : 0;
}

// Sixteen weights from `at` on, zeros behind `k`.
template <bool ALIGNED>
static __device__ int4 weights_at(const int8_t* row, int64_t at, int64_t k) {
    if constexpr (ALIGNED) {
        return at < k ? *reinterpret_cast<const int4*>(row + at) : int4{0, 0, 0, 0};
    } else {
        union {
            int4 vector;
            int8_t bytes[CHUNK];
        } chunk;
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) chunk.bytes[i] = at + i < k ? row[at + i] : 0;
        return chunk.vector;
    }
}

// A tile of M x N results by WARPS_M x WARPS_N warps. Shared memory holds chunks of sixteen bytes:
// all rows of one chunk, then those of the next, two rows of padding between them.
template <int M, int N, int K, int WARPS_M, int WARPS_N, bool ALIGNED>
static __global__ void __launch_bounds__(WARPS_M* WARPS_N * 32)
    multiply(const int8_t* weight, const float* scales, arena_t* out, int64_t m, int64_t n,
             int64_t k, int64_t pitch) {
    constexpr int THREADS = WARPS_M * WARPS_N * 32, CHUNKS = K / CHUNK;
    constexpr int LOADS_A = M * CHUNKS / THREADS, LOADS_B = N * CHUNKS / THREADS;
    constexpr int TILES_M = M / WARPS_M / 16, TILES_N = N / WARPS_N / 16;
    static_assert(LOADS_A * THREADS == M * CHUNKS && LOADS_B * THREADS == N * CHUNKS, "loads");
    static_assert(TILES_M * WARPS_M * 16 == M && TILES_N * WARPS_N * 16 == N, "tiles");
    __shared__ __align__(128) int4 a_tile[2][CHUNKS][M + 2];
    __shared__ __align__(128) int4 b_tile[2][CHUNKS][N + 2];
    __shared__ __align__(128) int staged[WARPS_M * WARPS_N][16 * 16];

    const int64_t top = int64_t(blockIdx.x) * M, left = int64_t(blockIdx.y) * N;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_top = warp / WARPS_N * TILES_M * 16, warp_left = warp % WARPS_N * TILES_N * 16;
    int4 a_next[LOADS_A], b_next[LOADS_B];

    auto load = [&](int64_t first) {
#pragma unroll
        for (int i = 0; i < LOADS_A; ++i) {
            const int place = threadIdx.x + i * THREADS;
            const int64_t row = top + place / CHUNKS, at = first + place % CHUNKS * CHUNK;
            a_next[i] = row < m && at < pitch
                            ? *reinterpret_cast<const int4*>(workspace + row * pitch + at)
                            : int4{0, 0, 0, 0};
        }
#pragma unroll
        for (int i = 0; i < LOADS_B; ++i) {
            const int place = threadIdx.x + i * THREADS;
            const int64_t col = left + place / CHUNKS, at = first + place % CHUNKS * CHUNK;
            b_next[i] = col < n ? weights_at<ALIGNED>(weight + col * k, at, k) : int4{0, 0, 0, 0};
        }
    };
    auto store = [&](int buffer) {
#pragma unroll
        for (int i = 0; i < LOADS_A; ++i) {
            const int place = threadIdx.x + i * THREADS;
            a_tile[buffer][place % CHUNKS][place / CHUNKS] = a_next[i];
        }
#pragma unroll
        for (int i = 0; i < LOADS_B; ++i) {
            const int place = threadIdx.x + i * THREADS;
            b_tile[buffer][place % CHUNKS][place / CHUNKS] = b_next[i];
        }
    };

    wmma::fragment<wmma::accumulator, 16, 16, 16, int> sums[TILES_M][TILES_N];
    for (auto& row : sums)
        for (auto& sum : row) wmma::fill_fragment(sum, 0);

    load(0);
    store(0);
    __syncthreads();
    int buffer = 0;
    for (int64_t first = 0; first < k; first += K) {
        const bool more = first + K < k;
        if (more) load(first + K);
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; ++chunk) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a[TILES_M];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b[TILES_N];
#pragma unroll
            for (int i = 0; i < TILES_M; ++i) {
                const int4* from = &a_tile[buffer][chunk][warp_top + i * 16];
                wmma::load_matrix_sync(a[i], reinterpret_cast<const signed char*>(from), CHUNK);
            }
#pragma unroll
            for (int j = 0; j < TILES_N; ++j) {
                const int4* from = &b_tile[buffer][chunk][warp_left + j * 16];
                wmma::load_matrix_sync(b[j], reinterpret_cast<const signed char*>(from), CHUNK);
            }
#pragma unroll
            for (int i = 0; i < TILES_M; ++i)
#pragma unroll
                for (int j = 0; j < TILES_N; ++j)
                    wmma::mma_sync(sums[i][j], a[i], b[j], sums[i][j]);
        }
        buffer ^= 1;
        if (more) store(buffer);  // nobody reads it: all are past the barrier before this step
        __syncthreads();
    }

    for (int i = 0; i < TILES_M; ++i) {
        for (int j = 0; j < TILES_N; ++j) {
            wmma::store_matrix_sync(staged[warp], sums[i][j], 16, wmma::mem_row_major);
            __syncwarp();
            for (int place = lane; place < 256; place += 32) {
                const int64_t row = top + warp_top + i * 16 + place / 16;
                const int64_t col = left + warp_left + j * 16 + place % 16;
                if (row < m && col < n)
                    out[row * n + col] =
                        arena_value(float(staged[warp][place]) * row_scales[row] * scales[col]);
            }
            __syncwarp();
        }
    }
}

template <int M, int N, int K, int WARPS_M, int WARPS_N>
static void launch(const int8_matmul_args* args, arena_t* out, int64_t rows, int64_t pitch,
                   cudaStream_t stream) {
    const dim3 grid((rows + M - 1) / M, (args->n + N - 1) / N);
    const auto kernel = args->k % CHUNK ? multiply<M, N, K, WARPS_M, WARPS_N, false>
                                        : multiply<M, N, K, WARPS_M, WARPS_N, true>;
    kernel<<<grid, WARPS_M * WARPS_N * 32, 0, stream>>>(args->weight, args->scales, out, rows,
                                                        args->n, args->k, pitch);
}

extern "C" int int8_matmul(const int8_matmul_args* args, cudaStream_t stream) {
    const int64_t k = args->k, pitch = (k + CHUNK - 1) / CHUNK * CHUNK;
    const int64_t fit = WORKSPACE / pitch < MOST_ROWS ? WORKSPACE / pitch : MOST_ROWS;
    const int64_t stretch = fit / TILE_M * TILE_M;
    if (stretch == 0) return cudaErrorInvalidValue;
    for (int64_t row = 0; row < args->m; row += stretch) {
        const int64_t rows = args->m - row < stretch ? args->m - row : stretch;
        arena_t* out = args->out + row * args->n;
        quantise<<<rows, QUANTISERS, 0, stream>>>(args->x + row * k, k, pitch);
        if (rows <= FEW_ROWS)
            launch<16, 64, 128, 1, 4>(args, out, rows, pitch, stream);
        else
            launch<TILE_M, TILE_N, TILE_K, 2, 4>(args, out, rows, pitch, stream);
    }
    return cudaGetLastError();
}
