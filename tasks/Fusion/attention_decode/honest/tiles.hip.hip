// honest: tiles of tokens, their scores and then powers in shared memory, for all heads of a group
// arena: flags -O3
#include "attention_decode.h"

constexpr int THREADS = 128;
constexpr int TILE = 64;
constexpr int HEADS = 16;
constexpr int MOST = 128;

__global__ void decode(attention_decode_args args) {
    __shared__ float query[HEADS][MOST], powers[HEADS][TILE];
    __shared__ float top[HEADS], total[HEADS], keep[HEADS];
    __shared__ int64_t slots[TILE];
    const int dim = int(args.head_dim), group = int(args.group), page_size = int(args.page_size);
    const int64_t kv_head = blockIdx.x, sequence = blockIdx.y;
    const int64_t rows = (sequence * args.kv_heads + kv_head) * group;
    const int length = args.lengths[sequence];

    for (int i = threadIdx.x; i < group * dim; i += THREADS)
        query[i / dim][i % dim] = arena_float(args.q[rows * dim + i]) / sqrtf(float(dim));
    if (threadIdx.x < group) top[threadIdx.x] = -1e30f, total[threadIdx.x] = 0.0f;
    // A thread sums up every THREADS-th element of the group's result.
    float sums[HEADS * MOST / THREADS] = {};
    for (int begin = 0; begin < length; begin += TILE) {
        const int count = min(TILE, length - begin);
        __syncthreads();
        for (int t = threadIdx.x; t < count; t += THREADS) {
            const int token = begin + t;
            const int64_t page = args.block_tables[sequence * args.pages + token / page_size];
            slots[t] = ((page * page_size + token % page_size) * args.kv_heads + kv_head) * dim;
        }
        __syncthreads();
        for (int i = threadIdx.x; i < group * count; i += THREADS) {
            const arena_t* key = args.k_cache + slots[i % count];
            float score = 0.0f;
            for (int d = 0; d < dim; ++d) score += query[i / count][d] * arena_float(key[d]);
            powers[i / count][i % count] = score;
        }
        __syncthreads();
        if (threadIdx.x < group) {
            const int h = threadIdx.x;
            float best = top[h], sum = 0.0f;
            for (int t = 0; t < count; ++t) best = fmaxf(best, powers[h][t]);
            for (int t = 0; t < count; ++t) {
                powers[h][t] = expf(powers[h][t] - best);
                sum += powers[h][t];
            }
            keep[h] = expf(top[h] - best);
            total[h] = total[h] * keep[h] + sum;
            top[h] = best;
        }
        __syncthreads();
        for (int i = threadIdx.x, n = 0; i < group * dim; i += THREADS, ++n) {
            float sum = 0.0f;
            for (int t = 0; t < count; ++t)
                sum += powers[i / dim][t] * arena_float(args.v_cache[slots[t] + i % dim]);
            sums[n] = sums[n] * keep[i / dim] + sum;
        }
    }
    for (int i = threadIdx.x, n = 0; i < group * dim; i += THREADS, ++n)
        args.out[rows * dim + i] = arena_value(sums[n] / total[i / dim]);
}

extern "C" int attention_decode(const attention_decode_args* args, hipStream_t stream) {
    if (args->head_dim > MOST || args->group > HEADS) return hipErrorInvalidValue;
    const dim3 blocks(unsigned(args->kv_heads), unsigned(args->sequences));
    decode<<<blocks, THREADS, 0, stream>>>(*args);
    return hipGetLastError();
}
