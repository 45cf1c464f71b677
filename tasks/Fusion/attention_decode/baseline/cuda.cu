// Attention over a paged cache in one pass, a block for the queries that share a head of keys of a
// sequence. A few lanes hold a token, sixteen bytes of its key and value each; such groups take the
// tokens in turn and put their parts together at the end.
// arena: tune-flags "-O3" "-O3 -use_fast_math"
// arena: flags -O3
#include "attention_decode.h"

// Threads of a block.
// arena: tune THREADS 64 128 256 512
#define THREADS 256

// Tokens a group has on their way at a time.
// arena: tune AHEAD 1 2 4 8
#define AHEAD 4

constexpr unsigned ALL = 0xffffffff;
constexpr int WIDE = 16 / sizeof(arena_t);
constexpr float LOG2_E = 1.4426950408889634f;

struct alignas(16) Wide {
    arena_t values[WIDE];
};

// HEADS query heads of a head of keys; where it has more, blocks with another blockIdx.z take them.
template <int DIM, int HEADS>
__global__ void __launch_bounds__(THREADS) decode(attention_decode_args args) {
    constexpr int LANES = DIM / WIDE, GROUPS = THREADS / LANES;
    __shared__ float parts[GROUPS][DIM], tops[GROUPS], totals[GROUPS];
    const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
    const int kv_head = blockIdx.x, first = blockIdx.z * HEADS;
    const int members = min(int(args.group) - first, HEADS), page_size = int(args.page_size);
    const int64_t sequence = blockIdx.y;
    const int64_t rows = (sequence * args.kv_heads + kv_head) * args.group + first;
    const int32_t* table = args.block_tables + sequence * args.pages;
    const int length = args.lengths[sequence];
    const int64_t stride = args.kv_heads * DIM, offset = kv_head * DIM + lane * WIDE;

    float query[HEADS][WIDE], sums[HEADS][WIDE] = {}, top[HEADS], total[HEADS] = {};
    const float scale = LOG2_E / sqrtf(float(DIM));
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
        // Past the group, the last of its heads again.
        const int64_t row = rows + min(h, members - 1);
        const Wide wide = *reinterpret_cast<const Wide*>(args.q + row * DIM + lane * WIDE);
#pragma unroll
        for (int i = 0; i < WIDE; ++i) query[h][i] = arena_float(wide.values[i]) * scale;
        top[h] = -INFINITY;
    }

    // All groups of a warp go round equally often, so that every lane takes part.
    for (int begin = 0; begin < length; begin += GROUPS * AHEAD) {
        Wide keys[AHEAD], values[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            const int token = min(begin + a * GROUPS + group, length - 1);
            const int64_t slot = int64_t(table[token / page_size]) * page_size + token % page_size;
            keys[a] = *reinterpret_cast<const Wide*>(args.k_cache + slot * stride + offset);
            values[a] = *reinterpret_cast<const Wide*>(args.v_cache + slot * stride + offset);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            const bool seen = begin + a * GROUPS + group < length;
            float value[WIDE], score[HEADS] = {};
#pragma unroll
            for (int i = 0; i < WIDE; ++i) {
                const float key = arena_float(keys[a].values[i]);
                value[i] = arena_float(values[a].values[i]);
#pragma unroll
                for (int h = 0; h < HEADS; ++h) score[h] = fmaf(query[h][i], key, score[h]);
            }
#pragma unroll
            for (int h = 0; h < HEADS; ++h) {
                for (int step = LANES / 2; step; step /= 2)
                    score[h] += __shfl_xor_sync(ALL, score[h], step, LANES);
                if (!seen) continue;
                const float best = fmaxf(top[h], score[h]);
                const float keep = exp2f(top[h] - best), power = exp2f(score[h] - best);
                top[h] = best;
                total[h] = total[h] * keep + power;
#pragma unroll
                for (int i = 0; i < WIDE; ++i)
                    sums[h][i] = fmaf(power, value[i], sums[h][i] * keep);
            }
        }
    }

#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
#pragma unroll
        for (int i = 0; i < WIDE; ++i) parts[group][lane * WIDE + i] = sums[h][i];
        if (lane == 0) {
            tops[group] = top[h];
            totals[group] = total[h];
        }
        __syncthreads();
        for (int d = threadIdx.x; d < DIM && h < members; d += THREADS) {
            // The first group has a token in any case.
            float best = tops[0], sum = 0.0f, share = 0.0f;
            for (int g = 1; g < GROUPS; ++g) best = fmaxf(best, tops[g]);
            for (int g = 0; g < GROUPS; ++g) {
                const float weight = exp2f(tops[g] - best);
                sum = fmaf(weight, parts[g][d], sum);
                share = fmaf(weight, totals[g], share);
            }
            args.out[(rows + h) * DIM + d] = arena_value(sum / share);
        }
        __syncthreads();
    }
}

template <int DIM, int HEADS>
static void launch(const attention_decode_args* args, cudaStream_t stream) {
    const dim3 blocks(unsigned(args->kv_heads), unsigned(args->sequences),
                      unsigned((args->group + HEADS - 1) / HEADS));
    decode<DIM, HEADS><<<blocks, THREADS, 0, stream>>>(*args);
}

template <int DIM>
static void launch(const attention_decode_args* args, cudaStream_t stream) {
    if (args->group == 1)
        launch<DIM, 1>(args, stream);
    else if (args->group == 2)
        launch<DIM, 2>(args, stream);
    else if (args->group <= 4)
        launch<DIM, 4>(args, stream);
    else
        launch<DIM, 8>(args, stream);
}

extern "C" int attention_decode(const attention_decode_args* args, cudaStream_t stream) {
    if (args->head_dim == 64)
        launch<64>(args, stream);
    else if (args->head_dim == 128)
        launch<128>(args, stream);
    else
        return cudaErrorInvalidValue;
    return cudaGetLastError();
}
