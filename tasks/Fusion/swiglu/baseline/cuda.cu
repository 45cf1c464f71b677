// SwiGLU, a thread for some neighbouring elements of the result: sixteen bytes where it can.
// arena: tune-flags "-O3" "-O3 -use_fast_math"
// arena: flags -O3
#include "swiglu.h"

// Threads of a block.
// arena: tune THREADS 64 128 256 512 1024
#define THREADS 256

// Packs of a thread, which it takes a block's width apart.
// arena: tune UNROLL 1 2 4
#define UNROLL 1

// Sixteen bytes at a time, where both halves of every row begin at a multiple of them.
constexpr int WIDE = 16 / sizeof(arena_t);

template <int N>
struct alignas(N * sizeof(arena_t)) Pack {
    arena_t values[N];
};

// Packs are counted in 32 bits: a case's tensors hold fewer than 2^32 elements.
template <int N>
__global__ void __launch_bounds__(THREADS) swiglu_kernel(swiglu_args args, unsigned packs) {
    const unsigned width = unsigned(args.hidden / N);
    const auto* x = reinterpret_cast<const Pack<N>*>(args.x);
    auto* out = reinterpret_cast<Pack<N>*>(args.out);

#pragma unroll
    for (unsigned step = 0; step < UNROLL; ++step) {
        const unsigned place = (blockIdx.x * UNROLL + step) * THREADS + threadIdx.x;
        if (place >= packs) return;
        const int64_t token = place / width, first = token * 2 * width + place % width;
        Pack<N> gates = x[first];
        const Pack<N> ups = x[first + width];
        for (int j = 0; j < N; ++j) {
            const float gate = arena_float(gates.values[j]);
            gates.values[j] = arena_value(gate / (1 + expf(-gate)) * arena_float(ups.values[j]));
        }
        out[place] = gates;
    }
}

template <int N>
static void launch(const swiglu_args& args, cudaStream_t stream) {
    const unsigned packs = unsigned(args.tokens * args.hidden / N), each = THREADS * UNROLL;
    swiglu_kernel<N><<<(packs + each - 1) / each, THREADS, 0, stream>>>(args, packs);
}

extern "C" int swiglu(const swiglu_args* args, cudaStream_t stream) {
    const bool wide =
        args->hidden % WIDE == 0 && (uintptr_t(args->x) | uintptr_t(args->out)) % 16 == 0;
    wide ? launch<WIDE>(*args, stream) : launch<1>(*args, stream);
    return cudaGetLastError();
}
