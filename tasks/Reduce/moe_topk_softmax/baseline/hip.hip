// Top-k softmax router, a group of lanes for a token: its logits stay in registers, and are searched
// for their maximum top_k times.
// arena: tune-flags "-O3" "-O3 -use_fast_math"
// arena: flags -O3
#include "moe_topk_softmax.h"

// Threads of a block.
// arena: tune THREADS 64 128 256 512
#define THREADS 256

// WIDTH lanes share a token and hold SLOTS of its logits each: expert s * WIDTH + lane in slot s.
template <int WIDTH, int SLOTS>
__global__ void __launch_bounds__(THREADS) route(moe_topk_softmax_args args) {
    const int lane = threadIdx.x % WIDTH, experts = int(args.experts), top_k = int(args.top_k);
    const int64_t asked = int64_t(blockIdx.x) * (THREADS / WIDTH) + threadIdx.x / WIDTH;
    // Groups past the last token repeat it, so that every lane takes part, and store nothing.
    const int64_t token = asked < args.tokens ? asked : args.tokens - 1;
    const arena_t* row = args.logits + token * experts;

    float left[SLOTS];
    float largest = -INFINITY;
#pragma unroll
    for (int s = 0; s < SLOTS; ++s) {
        const int expert = s * WIDTH + lane;
        left[s] = expert < experts ? arena_float(row[expert]) : -INFINITY;
        largest = fmaxf(largest, left[s]);
    }
    for (int step = WIDTH / 2; step; step /= 2)
        largest = fmaxf(largest, __shfl_xor(largest, step, WIDTH));

    float total = 0.0f;
    if (!args.renormalise) {
#pragma unroll
        for (int s = 0; s < SLOTS; ++s) total += expf(left[s] - largest);
        for (int step = WIDTH / 2; step; step /= 2)
            total += __shfl_xor(total, step, WIDTH);
    }

    // Lane i keeps the i-th choice.
    float power = 0.0f, chosen = 0.0f;
    int index = 0;
    for (int i = 0; i < top_k; ++i) {
        float best = left[0];
        int expert = lane;
#pragma unroll
        for (int s = 1; s < SLOTS; ++s) {
            if (left[s] > best) {
                best = left[s];
                expert = s * WIDTH + lane;
            }
        }
        for (int step = WIDTH / 2; step; step /= 2) {
            const float other = __shfl_xor(best, step, WIDTH);
            const int rival = __shfl_xor(expert, step, WIDTH);
            if (other > best || (other == best && rival < expert)) {
                best = other;
                expert = rival;
            }
        }
        const float found = expf(best - largest);
        chosen += found;
        if (lane == i) {
            power = found;
            index = expert;
        }
#pragma unroll
        for (int s = 0; s < SLOTS; ++s)
            if (s * WIDTH + lane == expert) left[s] = -INFINITY;
    }

    if (asked < args.tokens && lane < top_k) {
        args.weights[token * top_k + lane] = power / (args.renormalise ? chosen : total);
        args.indices[token * top_k + lane] = index;
    }
}

template <int WIDTH, int SLOTS>
static void launch(const moe_topk_softmax_args* args, hipStream_t stream) {
    constexpr int TOKENS = THREADS / WIDTH;
    const unsigned blocks = unsigned((args->tokens + TOKENS - 1) / TOKENS);
    route<WIDTH, SLOTS><<<blocks, THREADS, 0, stream>>>(*args);
}

extern "C" int moe_topk_softmax(const moe_topk_softmax_args* args, hipStream_t stream) {
    if (args->top_k > 8 || args->top_k > args->experts || args->experts > 512)
        return hipErrorInvalidValue;
    if (args->experts <= 8)
        launch<8, 1>(args, stream);
    else if (args->experts <= 16)
        launch<16, 1>(args, stream);
    else if (args->experts <= 32)
        launch<32, 1>(args, stream);
    else if (args->experts <= 64)
        launch<32, 2>(args, stream);
    else if (args->experts <= 128)
        launch<32, 4>(args, stream);
    else if (args->experts <= 256)
        launch<32, 8>(args, stream);
    else
        launch<32, 16>(args, stream);
    return hipGetLastError();
}
