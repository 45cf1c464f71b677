// honest: as many blocks as fit, which walk over the flattened result an element a thread
#include "swiglu.h"

constexpr int THREADS = 256;
constexpr int64_t BLOCKS = 2048;

__global__ void swiglu_kernel(swiglu_args args) {
    const int64_t elements = args.tokens * args.hidden, stride = int64_t(gridDim.x) * THREADS;
    for (int64_t i = int64_t(blockIdx.x) * THREADS + threadIdx.x; i < elements; i += stride) {
        const int64_t place = i / args.hidden * 2 * args.hidden + i % args.hidden;
        const float gate = arena_float(args.x[place]);
        const float up = arena_float(args.x[place + args.hidden]);
        args.out[i] = arena_value(gate * (1 / (1 + expf(-gate))) * up);
    }
}

extern "C" int swiglu(const swiglu_args* args, hipStream_t stream) {
    const int64_t needed = (args->tokens * args->hidden + THREADS - 1) / THREADS;
    swiglu_kernel<<<unsigned(needed < BLOCKS ? needed : BLOCKS), THREADS, 0, stream>>>(*args);
    return hipGetLastError();
}
