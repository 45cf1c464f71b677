// Causal grouped-query attention in one pass over the keys (Dao, 2023), a block of threads for a
// block of queries of one head. Tensor cores multiply what has 16 bits while the keys and values of
// the next tile are on their way; float32 is multiplied as such.
// arena: tune-flags "-O3" "-O3 -use_fast_math"
// arena: flags -O3
#include "attention.h"

// Warps of a block where tensors have 16 bits: each takes 16 queries.
// arena: tune WARPS 2 4 8
#define WARPS 4

// Keys of a tile there.
// arena: tune KEYS 32 64 128
#define KEYS 64

constexpr float LOG2_E = 1.4426950408889634f;

#if !ARENA_FLOAT32

#include <cuda_pipeline.h>

constexpr int THREADS = 32 * WARPS;
constexpr int QUERIES = 16 * WARPS;

// sum (16 x 8) += a (16 x 16) * b (16 x 8), spread over a warp as PTX says of mma.m16n8k16.
__device__ void multiply(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if ARENA_FLOAT16
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// Four matrices of 8 x 8: lane l says where row l % 8 of matrix l / 8 begins.
__device__ void load_matrices(uint32_t (&out)[4], const arena_t* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(unsigned(__cvta_generic_to_shared(row)))
                 : "memory");
}

// The same, each of them transposed.
__device__ void load_transposed(uint32_t (&out)[4], const arena_t* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(unsigned(__cvta_generic_to_shared(row)))
                 : "memory");
}

__device__ uint32_t pair_of(float low, float high) {
    struct alignas(4) {
        arena_t values[2];
    } pair = {{arena_value(low), arena_value(high)}};
    return *reinterpret_cast<const uint32_t*>(&pair);
}

// A row of a tile has eight elements more than it needs, so that eight rows lie in all banks.
template <int DIM>
struct Tile {
    arena_t rows[KEYS][DIM + 8];
};

template <int DIM>
__device__ void fetch(
    Tile<DIM>& tile, const arena_t* from, int64_t stride, int begin, int context) {
    for (int i = threadIdx.x; i < KEYS * DIM / 8; i += THREADS) {
        const int row = i / (DIM / 8), column = i % (DIM / 8) * 8;
        const arena_t* source = from + min(begin + row, context - 1) * stride + column;
        // Past the end there are zeros: a probability of zero times what is no number is none.
        const int zeros = begin + row < context ? 0 : 16;
        __pipeline_memcpy_async(&tile.rows[row][column], source, 16, zeros);
    }
}

template <int DIM>
__global__ void __launch_bounds__(THREADS) attend(attention_args args, float scale) {
    extern __shared__ uint4 memory[];
    Tile<DIM>* keys = reinterpret_cast<Tile<DIM>*>(memory);
    Tile<DIM>* values = keys + 2;

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int head = blockIdx.x, heads = int(args.kv_heads * args.group);
    const int tokens = int(args.tokens), context = int(args.chunks * args.tokens);
    // The last queries see the most keys: they begin first.
    const int start = int(gridDim.y - 1 - blockIdx.y) * QUERIES;
    const int64_t stride = args.kv_heads * DIM;
    const arena_t* k = args.k + head / int(args.group) * DIM;
    const arena_t* v = args.v + head / int(args.group) * DIM;

    // Of 16 rows, a lane has columns `column` and `column` + 1 of rows `row` and `row` + 8.
    const int row = start + warp * 16 + lane / 4, column = lane % 4 * 2;
    const int position[2] = {context - tokens + row, context - tokens + row + 8};
    uint32_t query[DIM / 16][4];
#pragma unroll
    for (int i = 0; i < DIM / 16 * 4; ++i) {
        const int token = row + i % 2 * 8, d = i / 4 * 16 + i / 2 % 2 * 8 + column;
        query[i / 4][i % 4] = 0;
        if (token < tokens)
            query[i / 4][i % 4] = *reinterpret_cast<const uint32_t*>(
                args.q + (int64_t(token) * heads + head) * DIM + d);
    }

    float sums[DIM / 8][4] = {}, top[2] = {-INFINITY, -INFINITY}, total[2] = {};
    const int end = min(context - tokens + start + QUERIES, context);
    fetch(keys[0], k, stride, 0, context);
    fetch(values[0], v, stride, 0, context);
    __pipeline_commit();
    for (int begin = 0, turn = 0; begin < end; begin += KEYS, turn ^= 1) {
        if (begin + KEYS < end) {
            fetch(keys[turn ^ 1], k, stride, begin + KEYS, context);
            fetch(values[turn ^ 1], v, stride, begin + KEYS, context);
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();

        float scores[KEYS / 8][4] = {};
#pragma unroll
        for (int d = 0; d < DIM; d += 16) {
#pragma unroll
            for (int n = 0; n < KEYS; n += 16) {
                uint32_t part[4];
                const int key = n + lane / 16 * 8 + lane % 8;
                load_matrices(part, &keys[turn].rows[key][d + lane / 8 % 2 * 8]);
                multiply(scores[n / 8], query[d / 16], part[0], part[1]);
                multiply(scores[n / 8 + 1], query[d / 16], part[2], part[3]);
            }
        }
        if (begin + KEYS > context - tokens + start + 1) {
#pragma unroll
            for (int i = 0; i < KEYS / 8 * 4; ++i)
                if (begin + i / 4 * 8 + column + i % 2 > position[i / 2 % 2])
                    scores[i / 4][i % 4] = -INFINITY;
        }

        float best[2] = {top[0], top[1]}, added[2] = {}, keep[2];
#pragma unroll
        for (int i = 0; i < KEYS / 8 * 4; ++i)
            best[i / 2 % 2] = fmaxf(best[i / 2 % 2], scores[i / 4][i % 4]);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            best[h] = fmaxf(best[h], __shfl_xor_sync(0xffffffff, best[h], 1));
            best[h] = fmaxf(best[h], __shfl_xor_sync(0xffffffff, best[h], 2));
            keep[h] = exp2f((top[h] - best[h]) * scale);
            top[h] = best[h];
        }
#pragma unroll
        for (int i = 0; i < KEYS / 8 * 4; ++i) {
            float& score = scores[i / 4][i % 4];
            score = exp2f((score - top[i / 2 % 2]) * scale);
            added[i / 2 % 2] += score;
        }
#pragma unroll
        for (int h = 0; h < 2; ++h) total[h] = total[h] * keep[h] + added[h];
#pragma unroll
        for (int i = 0; i < DIM / 8 * 4; ++i) sums[i / 4][i % 4] *= keep[i / 2 % 2];

#pragma unroll
        for (int n = 0; n < KEYS; n += 16) {
            const float(&left)[4] = scores[n / 8], (&right)[4] = scores[n / 8 + 1];
            const uint32_t powers[4] = {pair_of(left[0], left[1]), pair_of(left[2], left[3]),
                                        pair_of(right[0], right[1]), pair_of(right[2], right[3])};
#pragma unroll
            for (int d = 0; d < DIM; d += 16) {
                uint32_t part[4];
                load_transposed(part, &values[turn].rows[n + lane % 16][d + lane / 16 * 8]);
                multiply(sums[d / 8], powers, part[0], part[1]);
                multiply(sums[d / 8 + 1], powers, part[2], part[3]);
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int h = 0; h < 2; ++h) {
        total[h] += __shfl_xor_sync(0xffffffff, total[h], 1);
        total[h] += __shfl_xor_sync(0xffffffff, total[h], 2);
        const int token = row + h * 8;
        if (token >= tokens) continue;
        arena_t* out = args.out + (int64_t(token) * heads + head) * DIM + column;
        const float share = 1.0f / total[h];
#pragma unroll
        for (int d = 0; d < DIM / 8; ++d)
            *reinterpret_cast<uint32_t*>(out + d * 8) =
                pair_of(sums[d][h * 2] * share, sums[d][h * 2 + 1] * share);
    }
}

template <int DIM>
static int launch(const attention_args* args, cudaStream_t stream) {
    const int bytes = 4 * sizeof(Tile<DIM>);
    const cudaError_t error =
        cudaFuncSetAttribute(attend<DIM>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) return error;
    const dim3 blocks(args->kv_heads * args->group, (args->tokens + QUERIES - 1) / QUERIES);
    attend<DIM><<<blocks, THREADS, bytes, stream>>>(*args, LOG2_E / sqrtf(float(DIM)));
    return cudaGetLastError();
}

#else

constexpr int THREADS = 128;

// Of a tile of 8 ROWS queries and 16 COLUMNS keys, a thread has ROWS rows and every 16th column.
template <int DIM, int ROWS, int COLUMNS>
struct Shared {
    float queries[8 * ROWS][DIM + 4];
    float keys[16 * COLUMNS][DIM + 4];  // and then their values
    float powers[8 * ROWS][16 * COLUMNS + 4];
};

template <int DIM, int COUNT>
__device__ void fetch(
    float (&tile)[COUNT][DIM + 4], const arena_t* from, int64_t stride, int begin, int end) {
    struct alignas(4 * sizeof(arena_t)) Four {
        arena_t values[4];
    };
    for (int i = threadIdx.x; i < COUNT * DIM / 4; i += THREADS) {
        const int row = i / (DIM / 4), column = i % (DIM / 4) * 4;
        float4 wide = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (begin + row < end) {
            const Four four =
                *reinterpret_cast<const Four*>(from + (begin + row) * stride + column);
            wide = make_float4(arena_float(four.values[0]), arena_float(four.values[1]),
                               arena_float(four.values[2]), arena_float(four.values[3]));
        }
        *reinterpret_cast<float4*>(&tile[row][column]) = wide;
    }
}

__device__ float dot(float4 a, float4 b, float sum) {
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

template <int DIM, int ROWS, int COLUMNS>
__global__ void __launch_bounds__(THREADS) attend(attention_args args, float scale) {
    extern __shared__ float4 memory[];
    auto& shared = *reinterpret_cast<Shared<DIM, ROWS, COLUMNS>*>(memory);
    constexpr int QUERIES = 8 * ROWS, TILE = 16 * COLUMNS;

    const int y = threadIdx.x / 16 * ROWS, x = threadIdx.x % 16;
    const int head = blockIdx.x, heads = int(args.kv_heads * args.group);
    const int tokens = int(args.tokens), context = int(args.chunks * args.tokens);
    // The last queries see the most keys: they begin first.
    const int start = int(gridDim.y - 1 - blockIdx.y) * QUERIES;
    const int64_t stride = args.kv_heads * DIM, queries = int64_t(heads) * DIM;
    const int64_t kv_head = head / int(args.group) * DIM;

    float sums[ROWS][DIM / 16] = {}, top[ROWS], total[ROWS] = {};
    for (int i = 0; i < ROWS; ++i) top[i] = -INFINITY;
    fetch<DIM, QUERIES>(shared.queries, args.q + head * DIM, queries, start, tokens);
    const int end = min(context - tokens + start + QUERIES, context);
    for (int begin = 0; begin < end; begin += TILE) {
        fetch<DIM, TILE>(shared.keys, args.k + kv_head, stride, begin, context);
        __syncthreads();

        float scores[ROWS][COLUMNS] = {};
#pragma unroll 4
        for (int d = 0; d < DIM; d += 4) {
            float4 key[COLUMNS];
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j)
                key[j] = *reinterpret_cast<const float4*>(&shared.keys[x + 16 * j][d]);
#pragma unroll
            for (int i = 0; i < ROWS; ++i) {
                const float4 query = *reinterpret_cast<const float4*>(&shared.queries[y + i][d]);
#pragma unroll
                for (int j = 0; j < COLUMNS; ++j) scores[i][j] = dot(query, key[j], scores[i][j]);
            }
        }

#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            const int position = context - tokens + start + y + i;
            float best = top[i], added = 0.0f;
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j) {
                if (begin + x + 16 * j > position) scores[i][j] = -INFINITY;
                best = fmaxf(best, scores[i][j]);
            }
            for (int step = 8; step; step /= 2)
                best = fmaxf(best, __shfl_xor_sync(0xffffffff, best, step));
            const float keep = exp2f((top[i] - best) * scale);
            top[i] = best;
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j) {
                const float power = exp2f((scores[i][j] - best) * scale);
                shared.powers[y + i][x + 16 * j] = power;
                added += power;
            }
            total[i] = total[i] * keep + added;
#pragma unroll
            for (int d = 0; d < DIM / 16; ++d) sums[i][d] *= keep;
        }
        __syncthreads();
        fetch<DIM, TILE>(shared.keys, args.v + kv_head, stride, begin, context);
        __syncthreads();

        // Of the result a thread has its rows, and four columns of every 64.
#pragma unroll 2
        for (int n = 0; n < TILE; n += 4) {
            float power[ROWS][4];
#pragma unroll
            for (int i = 0; i < ROWS; ++i)
                *reinterpret_cast<float4*>(power[i]) =
                    *reinterpret_cast<const float4*>(&shared.powers[y + i][n]);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
#pragma unroll
                for (int d = 0; d < DIM / 64; ++d) {
                    const float4 value =
                        *reinterpret_cast<const float4*>(&shared.keys[n + j][d * 64 + x * 4]);
#pragma unroll
                    for (int i = 0; i < ROWS; ++i) {
                        sums[i][d * 4] = fmaf(power[i][j], value.x, sums[i][d * 4]);
                        sums[i][d * 4 + 1] = fmaf(power[i][j], value.y, sums[i][d * 4 + 1]);
                        sums[i][d * 4 + 2] = fmaf(power[i][j], value.z, sums[i][d * 4 + 2]);
                        sums[i][d * 4 + 3] = fmaf(power[i][j], value.w, sums[i][d * 4 + 3]);
                    }
                }
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        for (int step = 8; step; step /= 2) total[i] += __shfl_xor_sync(0xffffffff, total[i], step);
        const int token = start + y + i;
        if (token >= tokens) continue;
        const float share = 1.0f / total[i];
#pragma unroll
        for (int d = 0; d < DIM / 16; ++d)
            args.out[token * queries + head * DIM + d / 4 * 64 + x * 4 + d % 4] =
                arena_value(sums[i][d] * share);
    }
}

template <int DIM>
static int launch(const attention_args* args, cudaStream_t stream) {
    constexpr int ROWS = 8, COLUMNS = DIM == 64 ? 4 : 2, QUERIES = 8 * ROWS;
    const int bytes = sizeof(Shared<DIM, ROWS, COLUMNS>);
    const auto kernel = attend<DIM, ROWS, COLUMNS>;
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) return error;
    const dim3 blocks(args->kv_heads * args->group, (args->tokens + QUERIES - 1) / QUERIES);
    kernel<<<blocks, THREADS, bytes, stream>>>(*args, LOG2_E / sqrtf(float(DIM)));
    return cudaGetLastError();
}

#endif

extern "C" int attention(const attention_args* args, cudaStream_t stream) {
    if (args->head_dim == 64) return launch<64>(args, stream);
    if (args->head_dim == 128) return launch<128>(args, stream);
    return cudaErrorInvalidValue;
}
