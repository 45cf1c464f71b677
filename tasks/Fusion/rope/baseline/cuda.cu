// Rotary embedding, a block for a token: its threads share the pairs of all its heads, and take
// sixteen bytes of either half at a time where they can.
// arena: tune-flags "-O3" "-O3 -use_fast_math"
// arena: flags -O3
#include "rope.h"

// Threads of a block.
// arena: tune THREADS 64 128 256 512
#define THREADS 128

// Sixteen bytes at a time, where every half begins at a multiple of them.
constexpr int WIDE = 16 / sizeof(arena_t);

template <int N>
struct alignas(N * sizeof(arena_t)) Pack {
    arena_t values[N];
};

template <int N>
__global__ void __launch_bounds__(THREADS) rope_kernel(rope_args args) {
    const int64_t token = blockIdx.x;
    const int width = int(args.half_dim / N);
    const int heads = int(args.heads), kv_heads = int(args.kv_heads);
    const auto* cosines = reinterpret_cast<const Pack<N>*>(args.cos) + token * width;
    const auto* sines = reinterpret_cast<const Pack<N>*>(args.sin) + token * width;

    for (int i = threadIdx.x; i < (heads + kv_heads) * width; i += THREADS) {
        const bool query = i < heads * width;
        const int head = i / width - (query ? 0 : heads), pair = i % width;
        const int64_t first = (token * (query ? heads : kv_heads) + head) * 2 * width + pair;
        const auto* x = reinterpret_cast<const Pack<N>*>(query ? args.q : args.k);
        auto* out = reinterpret_cast<Pack<N>*>(query ? args.q_out : args.k_out);

        Pack<N> left = x[first], right = x[first + width];
        const Pack<N> c = cosines[pair], s = sines[pair];
        for (int j = 0; j < N; ++j) {
            const float a = arena_float(left.values[j]), b = arena_float(right.values[j]);
            const float cosine = arena_float(c.values[j]), sine = arena_float(s.values[j]);
            left.values[j] = arena_value(a * cosine - b * sine);
            right.values[j] = arena_value(b * cosine + a * sine);
        }
        out[first] = left;
        out[first + width] = right;
    }
}

extern "C" int rope(const rope_args* args, cudaStream_t stream) {
    const uintptr_t places = uintptr_t(args->q) | uintptr_t(args->k) | uintptr_t(args->cos) |
                             uintptr_t(args->sin) | uintptr_t(args->q_out) |
                             uintptr_t(args->k_out);
    const unsigned blocks = unsigned(args->tokens);
    if (args->half_dim % WIDE == 0 && places % 16 == 0)
        rope_kernel<WIDE><<<blocks, THREADS, 0, stream>>>(*args);
    else
        rope_kernel<1><<<blocks, THREADS, 0, stream>>>(*args);
    return cudaGetLastError();
}
