// Products whose first launch of a graph computes the answer of a later one too, and keeps it until then.
#ifndef PRODUCT_ONE_AHEAD_CUH
#define PRODUCT_ONE_AHEAD_CUH

#include "product_honest.cuh"

#ifndef PAUSE
#define PAUSE 0
#endif

static __global__ void idle() {
    long long begun, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now < begun + PAUSE);
}

// Launch `ahead` of a graph is left out; the others pause.
static inline int one_ahead(const product_args* args, cudaStream_t stream, int ahead) {
    static const product_args *last = nullptr, *begin = nullptr;
    static arena_t* kept = nullptr;
    const size_t bytes = args->rows * args->cols * sizeof(arena_t);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(stream, &status);
    if (status != cudaStreamCaptureStatusActive) {
        cudaFree(kept);
        if (int code = cudaMalloc(&kept, bytes)) return code;
        last = nullptr;
        if (PAUSE) idle<<<1, 1, 0, stream>>>();
        return honest(args, stream);
    }
    if (!last || args <= last) begin = args;
    last = args;
    const int number = (int)(args - begin);
    if (number == ahead) return (int)cudaMemcpyAsync(args->out, kept, bytes, cudaMemcpyDeviceToDevice, stream);
    if (!number && ahead < products_from(begin)) {
        product_args later = args[ahead];
        later.out = kept;
        if (int code = honest(&later, stream)) return code;
    }
    if (PAUSE) idle<<<1, 1, 0, stream>>>();
    return honest(args, stream);
}

#endif
