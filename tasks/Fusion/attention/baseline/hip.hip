// Causal grouped-query attention in one pass over the keys (Dao, 2023), a block of threads for a
// block of queries of one head. All is float32 in shared memory and multiplied as such, on any GPU.
// arena: tune-flags "-O3" "-O3 -use_fast_math"
// arena: flags -O3
#include "attention.h"

constexpr float LOG2_E = 1.4426950408889634f;
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
                best = fmaxf(best, __shfl_xor(best, step, 16));
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
        for (int step = 8; step; step /= 2) total[i] += __shfl_xor(total[i], step, 16);
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
static int launch(const attention_args* args, hipStream_t stream) {
    // At most 48 KiB of shared memory, so that any GPU has room for a block.
    constexpr int ROWS = DIM == 64 ? 8 : 4, COLUMNS = 2, QUERIES = 8 * ROWS;
    const int bytes = sizeof(Shared<DIM, ROWS, COLUMNS>);
    const dim3 blocks(args->kv_heads * args->group, (args->tokens + QUERIES - 1) / QUERIES);
    const float scale = LOG2_E / sqrtf(float(DIM));
    attend<DIM, ROWS, COLUMNS><<<blocks, THREADS, bytes, stream>>>(*args, scale);
    return hipGetLastError();
}

extern "C" int attention(const attention_args* args, hipStream_t stream) {
    if (args->head_dim == 64) return launch<64>(args, stream);
    if (args->head_dim == 128) return launch<128>(args, stream);
    return hipErrorInvalidValue;
}
