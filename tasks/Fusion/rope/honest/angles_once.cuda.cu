// honest: a thread per pair and token, which loads its angle once and walks over the heads
#include "rope.h"

constexpr int PAIRS = 64, TOKENS = 4;

__device__ void turn(const arena_t* x, arena_t* out, int64_t heads, int64_t half_dim, float c,
                     float s) {
    for (int64_t head = 0; head < heads; ++head) {
        const int64_t first = head * 2 * half_dim, second = first + half_dim;
        const float a = arena_float(x[first]), b = arena_float(x[second]);
        out[first] = arena_value(a * c - b * s);
        out[second] = arena_value(b * c + a * s);
    }
}

__global__ void rope_kernel(rope_args args) {
    const int64_t token = int64_t(blockIdx.x) * TOKENS + threadIdx.y;
    if (token >= args.tokens) return;
    for (int64_t pair = threadIdx.x; pair < args.half_dim; pair += PAIRS) {
        const float c = arena_float(args.cos[token * args.half_dim + pair]);
        const float s = arena_float(args.sin[token * args.half_dim + pair]);
        const int64_t q = token * args.heads * 2 * args.half_dim + pair;
        const int64_t k = token * args.kv_heads * 2 * args.half_dim + pair;
        turn(args.q + q, args.q_out + q, args.heads, args.half_dim, c, s);
        turn(args.k + k, args.k_out + k, args.kv_heads, args.half_dim, c, s);
    }
}

extern "C" int rope(const rope_args* args, cudaStream_t stream) {
    const unsigned blocks = unsigned((args->tokens + TOKENS - 1) / TOKENS);
    rope_kernel<<<blocks, dim3(PAIRS, TOKENS), 0, stream>>>(*args);
    return cudaGetLastError();
}
