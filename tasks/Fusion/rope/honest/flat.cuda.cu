// honest: a thread per pair of the flattened heads, queries and keys in a launch each
#include "rope.h"

constexpr int THREADS = 256;

__global__ void rope_kernel(const arena_t* x, const arena_t* cos, const arena_t* sin, arena_t* out,
                            int64_t pairs, int64_t heads, int64_t half_dim) {
    const int64_t pair = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (pair >= pairs) return;
    const int64_t head = pair / half_dim, i = pair % half_dim;
    const int64_t place = head * 2 * half_dim + i, angle = head / heads * half_dim + i;
    const float a = arena_float(x[place]), b = arena_float(x[place + half_dim]);
    const float c = arena_float(cos[angle]), s = arena_float(sin[angle]);
    out[place] = arena_value(fmaf(a, c, -b * s));
    out[place + half_dim] = arena_value(fmaf(b, c, a * s));
}

static void turn(const rope_args& args, const arena_t* x, arena_t* out, int64_t heads,
                 cudaStream_t stream) {
    const int64_t pairs = args.tokens * heads * args.half_dim;
    const unsigned blocks = unsigned((pairs + THREADS - 1) / THREADS);
    rope_kernel<<<blocks, THREADS, 0, stream>>>(x, args.cos, args.sin, out, pairs, heads,
                                                args.half_dim);
}

extern "C" int rope(const rope_args* args, cudaStream_t stream) {
    turn(*args, args->q, args->q_out, args->heads, stream);
    turn(*args, args->k, args->k_out, args->kv_heads, stream);
    return cudaGetLastError();
}
