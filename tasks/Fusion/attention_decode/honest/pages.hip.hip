// honest: a block for a query head, each group of sixteen lanes taking whole pages; powers of e
// arena: flags -O3
#include "attention_decode.h"

constexpr int LANES = 16;
constexpr int GROUPS = 8;
constexpr int MOST = 128;

__global__ void decode(attention_decode_args args) {
    __shared__ float parts[GROUPS][MOST], tops[GROUPS], totals[GROUPS];
    const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES, dim = int(args.head_dim);
    const int64_t head = blockIdx.x, sequence = blockIdx.y;
    const int64_t row = sequence * gridDim.x + head, kv_head = head / args.group;
    const int length = args.lengths[sequence], page_size = int(args.page_size);
    const int pages = (length + page_size - 1) / page_size;

    float query[MOST / LANES] = {}, sums[MOST / LANES] = {}, top = -1e30f, total = 0.0f;
    for (int i = 0; i * LANES < dim; ++i)
        query[i] = arena_float(args.q[row * dim + i * LANES + lane]);
    for (int begin = 0; begin < pages; begin += GROUPS) {
        const int asked = begin + group, entry = asked < pages ? asked : pages - 1;
        const int64_t page = args.block_tables[sequence * args.pages + entry];
        for (int place = 0; place < page_size; ++place) {
            const int64_t at = ((page * page_size + place) * args.kv_heads + kv_head) * dim;
            float score = 0.0f;
            for (int i = 0; i * LANES < dim; ++i)
                score += query[i] * arena_float(args.k_cache[at + i * LANES + lane]);
            for (int step = LANES / 2; step; step /= 2)
                score += __shfl_xor(score, step, LANES);
            if (asked >= pages || asked * page_size + place >= length) continue;
            score /= sqrtf(float(dim));
            if (score > top) {
                const float keep = expf(top - score);
                for (int i = 0; i < MOST / LANES; ++i) sums[i] *= keep;
                total *= keep;
                top = score;
            }
            const float power = expf(score - top);
            total += power;
            for (int i = 0; i * LANES < dim; ++i)
                sums[i] += power * arena_float(args.v_cache[at + i * LANES + lane]);
        }
    }

    for (int i = 0; i * LANES < dim; ++i) parts[group][i * LANES + lane] = sums[i];
    if (lane == 0) tops[group] = top, totals[group] = total;
    __syncthreads();
    if (threadIdx.x < dim) {
        float best = tops[0], sum = 0.0f, share = 0.0f;
        for (int g = 1; g < GROUPS; ++g) best = fmaxf(best, tops[g]);
        for (int g = 0; g < GROUPS; ++g) {
            sum += expf(tops[g] - best) * parts[g][threadIdx.x];
            share += expf(tops[g] - best) * totals[g];
        }
        args.out[row * dim + threadIdx.x] = arena_value(sum / share);
    }
}

extern "C" int attention_decode(const attention_decode_args* args, hipStream_t stream) {
    if (args->head_dim > MOST) return hipErrorInvalidValue;
    const dim3 blocks(unsigned(args->kv_heads * args->group), unsigned(args->sequences));
    decode<<<blocks, LANES * GROUPS, 0, stream>>>(*args);
    return hipGetLastError();
}
