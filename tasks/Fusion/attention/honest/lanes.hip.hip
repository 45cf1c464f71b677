// honest: sixteen lanes for a query of one head; each scores a key, then all add its value up
// arena: flags -O3
#include "attention.h"

constexpr int LANES = 16;
constexpr int THREADS = 128;
constexpr int MOST = 128 / LANES;

__global__ void attend(attention_args args) {
    const int lane = threadIdx.x % LANES, dim = int(args.head_dim);
    const int64_t heads = args.kv_heads * args.group, rows = args.tokens * heads;
    const int64_t asked = int64_t(blockIdx.x) * (THREADS / LANES) + threadIdx.x / LANES;
    // Groups past the last query repeat it, so that every lane takes part.
    const int64_t row = asked < rows ? asked : rows - 1, kv_head = row % heads / args.group;
    const int64_t position = (args.chunks - 1) * args.tokens + row / heads;
    // What the other groups of a warp see differs: all go as far as the last of them.
    int64_t last = position;
    for (int step = LANES; step < warpSize; step *= 2) {
        const int64_t other = __shfl_xor(last, step);
        last = other > last ? other : last;
    }

    float sums[MOST] = {}, top = -1e30f, total = 0.0f;
    for (int64_t begin = 0; begin <= last; begin += LANES) {
        const int64_t key = begin + lane;
        float score = -1e30f;
        if (key <= position) {
            score = 0.0f;
            for (int d = 0; d < dim; ++d)
                score += arena_float(args.q[row * dim + d]) *
                         arena_float(args.k[(key * args.kv_heads + kv_head) * dim + d]);
            score /= sqrtf(float(dim));
        }
        float best = fmaxf(top, score);
        for (int step = LANES / 2; step; step /= 2)
            best = fmaxf(best, __shfl_xor(best, step, LANES));
        const float keep = expf(top - best), power = key <= position ? expf(score - best) : 0.0f;
        top = best;
        total = total * keep + power;
        for (int i = 0; i < MOST; ++i) sums[i] *= keep;
        for (int j = 0; j < LANES; ++j) {
            const float share = __shfl(power, j, LANES);
            if (begin + j > position) continue;
            const arena_t* value = args.v + ((begin + j) * args.kv_heads + kv_head) * dim;
            for (int i = 0; i < MOST; ++i)
                if (i * LANES + lane < dim) sums[i] += share * arena_float(value[i * LANES + lane]);
        }
    }
    for (int step = LANES / 2; step; step /= 2)
        total += __shfl_xor(total, step, LANES);
    for (int i = 0; i < MOST; ++i)
        if (asked < rows && i * LANES + lane < dim)
            args.out[row * dim + i * LANES + lane] = arena_value(sums[i] / total);
}

extern "C" int attention(const attention_args* args, hipStream_t stream) {
    const int64_t rows = args->tokens * args->kv_heads * args->group;
    const int64_t blocks = (rows * LANES + THREADS - 1) / THREADS;
    attend<<<unsigned(blocks), THREADS, 0, stream>>>(*args);
    return hipGetLastError();
}
