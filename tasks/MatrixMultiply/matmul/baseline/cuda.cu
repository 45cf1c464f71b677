// Matrix multiplication. 16-bit operands go to tensor cores in tiles that are fetched some steps
// ahead, float32 through registers; one to four rows, which b's bytes bound, share each load of b.
// arena: tune-flags "-O3" "-maxrregcount=128" "-maxrregcount=168"
// arena: flags -O3
#include "matmul.h"

#include <cuda_pipeline_primitives.h>
#include <mma.h>

// The tile of a block, its depth, and how many of them are in flight.
// arena: tune TILE_M 64 128 256
#define TILE_M 128
// arena: tune TILE_N 64 128 256
#define TILE_N 128
// arena: tune TILE_K 16 32 64
#define TILE_K 32
// arena: tune STAGES 2 3 4
#define STAGES 3

// Warps of a block, below and beside each other.
// arena: tune WARPS_M 1 2 4
#define WARPS_M 2
// arena: tune WARPS_N 1 2 4
#define WARPS_N 4

// Rows of tiles that are walked together, so that neighbours share what they load.
// arena: tune GROUP 1 4 8 16
#define GROUP 8

// The depth of a tile of float32.
// arena: tune WIDE_K 8 16 32
#define WIDE_K 16

constexpr int WIDE = 16 / sizeof(arena_t);

template <int N>
struct alignas(N * sizeof(arena_t)) Pack {
    arena_t values[N];
};

// Where the tile of a block begins.
struct Corner {
    int64_t row, col;
};

__device__ Corner corner(const matmul_args& args, int tile_m, int tile_n) {
    const int64_t tiles_m = (args.m + tile_m - 1) / tile_m;
    const int64_t tiles_n = (args.n + tile_n - 1) / tile_n;
    const int64_t group = blockIdx.x / (GROUP * tiles_n), within = blockIdx.x % (GROUP * tiles_n);
    const int64_t height = min(tiles_m - group * GROUP, int64_t(GROUP));
    return {(group * GROUP + within % height) * tile_m, within / height * tile_n};
}

static unsigned tiles(const matmul_args& args, int tile_m, int tile_n) {
    return unsigned((args.m + tile_m - 1) / tile_m * ((args.n + tile_n - 1) / tile_n));
}

#if defined(ARENA_FLOAT32)

constexpr int SIDE = 128, EACH = 8, THREADS = (SIDE / EACH) * (SIDE / EACH);

// A thread adds up 8 x 8 results of a tile of 128 x 128.
__global__ void __launch_bounds__(THREADS) tile_kernel(matmul_args args) {
    __shared__ float left[WIDE_K][SIDE + 4], right[WIDE_K][SIDE];
    const Corner at = corner(args, SIDE, SIDE);
    const int top = threadIdx.x / (SIDE / EACH), side = threadIdx.x % (SIDE / EACH);

    float sums[EACH][EACH] = {};
    for (int64_t first = 0; first < args.k; first += WIDE_K) {
        for (int i = threadIdx.x; i < SIDE * WIDE_K; i += THREADS) {
            const int64_t row = at.row + i / WIDE_K, depth = first + i % WIDE_K;
            const bool inside = row < args.m && depth < args.k;
            left[i % WIDE_K][i / WIDE_K] = inside ? args.a[row * args.k + depth] : 0;
        }
        for (int i = threadIdx.x; i < SIDE * WIDE_K; i += THREADS) {
            const int64_t depth = first + i / SIDE, col = at.col + i % SIDE;
            const bool inside = depth < args.k && col < args.n;
            right[i / SIDE][i % SIDE] = inside ? args.b[depth * args.n + col] : 0;
        }
        __syncthreads();
#pragma unroll
        for (int l = 0; l < WIDE_K; ++l) {
            float a[EACH], b[EACH];
            for (int i = 0; i < EACH; ++i) a[i] = left[l][top + i * (SIDE / EACH)];
            for (int j = 0; j < EACH; ++j) b[j] = right[l][side + j * (SIDE / EACH)];
            for (int i = 0; i < EACH; ++i)
                for (int j = 0; j < EACH; ++j) sums[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < EACH; ++i)
        for (int j = 0; j < EACH; ++j) {
            const int64_t row = at.row + top + i * (SIDE / EACH);
            const int64_t col = at.col + side + j * (SIDE / EACH);
            if (row < args.m && col < args.n) args.out[row * args.n + col] = sums[i][j];
        }
}

static int multiply(const matmul_args& args, bool, cudaStream_t stream) {
    tile_kernel<<<tiles(args, SIDE, SIDE), THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}

#else

using namespace nvcuda;

constexpr int THREADS = 32 * WARPS_M * WARPS_N, CORE = 16;
constexpr int ROWS = TILE_M / WARPS_M / CORE, COLS = TILE_N / WARPS_N / CORE;

// Rows of shared tiles are a little longer, so that their beginnings fall into different banks.
constexpr int PITCH_K = TILE_K + 8, PITCH_N = TILE_N + 8, PITCH = CORE + 4;

struct Stage {
    arena_t left[TILE_M * PITCH_K], right[TILE_K * PITCH_N];
};
union Shared {
    Stage stages[STAGES];
    float patches[WARPS_M * WARPS_N][CORE * PITCH];
};

// Copy a tile of a matrix of `rows` x `cols`, zeros where it ends. N elements at a time.
template <int HEIGHT, int WIDTH, int N>
__device__ void fetch(arena_t* to, int pitch, const arena_t* from, int64_t rows, int64_t cols,
                      int64_t row, int64_t col) {
    for (int i = threadIdx.x; i < HEIGHT * WIDTH / N; i += THREADS) {
        const int y = i / (WIDTH / N), x = i % (WIDTH / N) * N;
        const bool inside = row + y < rows && col + x < cols;
        const arena_t* source = from + (inside ? (row + y) * cols + col + x : 0);
        if constexpr (N > 1)
            __pipeline_memcpy_async(to + y * pitch + x, source, 16, inside ? 0 : 16);
        else
            to[y * pitch + x] = inside ? *source : arena_value(0);
    }
}

template <int N>
__global__ void __launch_bounds__(THREADS) tile_kernel(matmul_args args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    Shared& shared = *reinterpret_cast<Shared*>(bytes);
    const Corner at = corner(args, TILE_M, TILE_N);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int top = warp / WARPS_N * ROWS * CORE, side = warp % WARPS_N * COLS * CORE;

    wmma::fragment<wmma::accumulator, CORE, CORE, CORE, float> sums[ROWS][COLS];
    for (auto& row : sums)
        for (auto& sum : row) wmma::fill_fragment(sum, 0.0f);

    const int steps = int((args.k + TILE_K - 1) / TILE_K);
    const auto fetch_step = [&](int step) {
        if (step < steps) {
            Stage& stage = shared.stages[step % STAGES];
            const int64_t depth = int64_t(step) * TILE_K;
            fetch<TILE_M, TILE_K, N>(stage.left, PITCH_K, args.a, args.m, args.k, at.row, depth);
            fetch<TILE_K, TILE_N, N>(stage.right, PITCH_N, args.b, args.k, args.n, depth, at.col);
        }
        __pipeline_commit();
    };
    for (int step = 0; step < STAGES - 1; ++step) fetch_step(step);
    for (int step = 0; step < steps; ++step) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        fetch_step(step + STAGES - 1);
        const Stage& stage = shared.stages[step % STAGES];
#pragma unroll
        for (int l = 0; l < TILE_K; l += CORE) {
            wmma::fragment<wmma::matrix_a, CORE, CORE, CORE, arena_t, wmma::row_major> a[ROWS];
            wmma::fragment<wmma::matrix_b, CORE, CORE, CORE, arena_t, wmma::row_major> b[COLS];
            for (int i = 0; i < ROWS; ++i)
                wmma::load_matrix_sync(a[i], stage.left + (top + i * CORE) * PITCH_K + l, PITCH_K);
            for (int j = 0; j < COLS; ++j)
                wmma::load_matrix_sync(b[j], stage.right + l * PITCH_N + side + j * CORE, PITCH_N);
            for (int i = 0; i < ROWS; ++i)
                for (int j = 0; j < COLS; ++j) wmma::mma_sync(sums[i][j], a[i], b[j], sums[i][j]);
        }
    }
    __pipeline_wait_prior(0);
    __syncthreads();

    float* patch = shared.patches[warp];
    for (int i = 0; i < ROWS; ++i)
        for (int j = 0; j < COLS; ++j) {
            wmma::store_matrix_sync(patch, sums[i][j], PITCH, wmma::mem_row_major);
            __syncwarp();
            for (int place = lane * N; place < CORE * CORE; place += 32 * N) {
                const int64_t row = at.row + top + i * CORE + place / CORE;
                const int64_t col = at.col + side + j * CORE + place % CORE;
                Pack<N> pack;
                for (int e = 0; e < N; ++e)
                    pack.values[e] = arena_value(patch[place / CORE * PITCH + place % CORE + e]);
                if (row < args.m && col < args.n)
                    *reinterpret_cast<Pack<N>*>(args.out + row * args.n + col) = pack;
            }
            __syncwarp();
        }
}

template <int N>
static int launch_tiles(const matmul_args& args, cudaStream_t stream) {
    const int bytes = sizeof(Shared);
    const cudaError_t error = cudaFuncSetAttribute(
        tile_kernel<N>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) return error;
    tile_kernel<N><<<tiles(args, TILE_M, TILE_N), THREADS, bytes, stream>>>(args);
    return cudaGetLastError();
}

static int multiply(const matmul_args& args, bool wide, cudaStream_t stream) {
    return wide ? launch_tiles<WIDE>(args, stream) : launch_tiles<1>(args, stream);
}

#endif

constexpr int FEW = 4, ACROSS = 4, DOWN = 64, AHEAD = 4;

// A block takes ACROSS packs of columns; its threads share the depth, load AHEAD packs at once and
// add up in the end.
__global__ void __launch_bounds__(ACROSS * DOWN) few_rows_kernel(matmul_args args) {
    __shared__ float parts[DOWN][ACROSS * WIDE];
    const int across = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS;
    const int64_t first = int64_t(blockIdx.x) * ACROSS * WIDE, col = first + across * WIDE;

    float sums[FEW][WIDE] = {};
    const int64_t end = col < args.n ? args.k : 0;
    for (int64_t next = down; next < end; next += AHEAD * DOWN) {
        Pack<WIDE> packs[AHEAD];
#pragma unroll
        for (int step = 0; step < AHEAD; ++step) {
            const int64_t depth = min(next + step * DOWN, args.k - 1);
            packs[step] = *reinterpret_cast<const Pack<WIDE>*>(args.b + depth * args.n + col);
        }
#pragma unroll
        for (int row = 0; row < FEW; ++row) {
            if (row >= args.m) break;
#pragma unroll
            for (int step = 0; step < AHEAD; ++step) {
                const int64_t depth = next + step * DOWN;
                if (depth >= args.k) break;
                const float factor = arena_float(args.a[row * args.k + depth]);
                for (int j = 0; j < WIDE; ++j)
                    sums[row][j] += factor * arena_float(packs[step].values[j]);
            }
        }
    }
#pragma unroll
    for (int row = 0; row < FEW; ++row) {
        if (row >= args.m) break;
        for (int j = 0; j < WIDE; ++j) parts[down][across * WIDE + j] = sums[row][j];
        __syncthreads();
        if (threadIdx.x < ACROSS * WIDE && first + threadIdx.x < args.n) {
            float sum = 0;
            for (int i = 0; i < DOWN; ++i) sum += parts[i][threadIdx.x];
            args.out[row * args.n + first + threadIdx.x] = arena_value(sum);
        }
        __syncthreads();
    }
}

extern "C" int matmul(const matmul_args* args, cudaStream_t stream) {
    const uintptr_t places = uintptr_t(args->a) | uintptr_t(args->b) | uintptr_t(args->out);
    const bool rows_of_b = args->n % WIDE == 0 && places % 16 == 0;
    if (args->m > FEW || !rows_of_b)
        return multiply(*args, rows_of_b && args->k % WIDE == 0, stream);
    const unsigned blocks = unsigned((args->n / WIDE + ACROSS - 1) / ACROSS);
    few_rows_kernel<<<blocks, ACROSS * DOWN, 0, stream>>>(*args);
    return cudaGetLastError();
}
