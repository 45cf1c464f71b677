// Matrix multiplication through registers, operands as float32 in shared tiles: no matrix cores,
// whose instructions differ by vendor. One to four rows, which b's bytes bound, share each load.
// arena: tune-flags "-O3" "-O3 -use_fast_math"
// arena: flags -O3
#include "matmul.h"

// The tile of a block is SIDE x SIDE, a thread adds up EACH x EACH results of it.
// arena: tune SIDE 32 64 128
#define SIDE 128
// arena: tune EACH 4 8 16
#define EACH 8
// arena: tune WIDE_K 8 16 32
#define WIDE_K 16

// Rows of tiles that are walked together, so that neighbours share what they load.
// arena: tune GROUP 1 4 8 16
#define GROUP 8

constexpr int ACROSS_TILE = SIDE / EACH, THREADS = ACROSS_TILE * ACROSS_TILE;
constexpr int WIDE = 16 / sizeof(arena_t);

template <int N>
struct alignas(N * sizeof(arena_t)) Pack {
    arena_t values[N];
};

__global__ void __launch_bounds__(THREADS) tile_kernel(matmul_args args) {
    __shared__ float left[WIDE_K][SIDE + 4], right[WIDE_K][SIDE];
    const int64_t tiles_m = (args.m + SIDE - 1) / SIDE, tiles_n = (args.n + SIDE - 1) / SIDE;
    const int64_t group = blockIdx.x / (GROUP * tiles_n), within = blockIdx.x % (GROUP * tiles_n);
    const int64_t rest = tiles_m - group * GROUP, height = rest < GROUP ? rest : GROUP;
    const int64_t first_row = (group * GROUP + within % height) * SIDE;
    const int64_t first_col = within / height * SIDE;
    const int top = threadIdx.x / ACROSS_TILE, side = threadIdx.x % ACROSS_TILE;

    float sums[EACH][EACH] = {};
    for (int64_t first = 0; first < args.k; first += WIDE_K) {
        for (int i = threadIdx.x; i < SIDE * WIDE_K; i += THREADS) {
            const int64_t row = first_row + i / WIDE_K, depth = first + i % WIDE_K;
            const bool inside = row < args.m && depth < args.k;
            left[i % WIDE_K][i / WIDE_K] = inside ? arena_float(args.a[row * args.k + depth]) : 0;
        }
        for (int i = threadIdx.x; i < SIDE * WIDE_K; i += THREADS) {
            const int64_t depth = first + i / SIDE, col = first_col + i % SIDE;
            const bool inside = depth < args.k && col < args.n;
            right[i / SIDE][i % SIDE] = inside ? arena_float(args.b[depth * args.n + col]) : 0;
        }
        __syncthreads();
#pragma unroll
        for (int l = 0; l < WIDE_K; ++l) {
            float a[EACH], b[EACH];
            for (int i = 0; i < EACH; ++i) a[i] = left[l][top + i * ACROSS_TILE];
            for (int j = 0; j < EACH; ++j) b[j] = right[l][side + j * ACROSS_TILE];
            for (int i = 0; i < EACH; ++i)
                for (int j = 0; j < EACH; ++j) sums[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < EACH; ++i)
        for (int j = 0; j < EACH; ++j) {
            const int64_t row = first_row + top + i * ACROSS_TILE;
            const int64_t col = first_col + side + j * ACROSS_TILE;
            if (row < args.m && col < args.n)
                args.out[row * args.n + col] = arena_value(sums[i][j]);
        }
}

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
            const int64_t depth = next + step * DOWN;
            const int64_t place = (depth < args.k ? depth : args.k - 1) * args.n + col;
            packs[step] = *reinterpret_cast<const Pack<WIDE>*>(args.b + place);
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

extern "C" int matmul(const matmul_args* args, hipStream_t stream) {
    const bool rows_of_b = args->n % WIDE == 0 && uintptr_t(args->b) % 16 == 0;
    if (args->m <= FEW && rows_of_b) {
        const unsigned blocks = unsigned((args->n / WIDE + ACROSS - 1) / ACROSS);
        few_rows_kernel<<<blocks, ACROSS * DOWN, 0, stream>>>(*args);
    } else {
        const int64_t tiles = (args->m + SIDE - 1) / SIDE * ((args->n + SIDE - 1) / SIDE);
        tile_kernel<<<unsigned(tiles), THREADS, 0, stream>>>(*args);
    }
    return hipGetLastError();
}
