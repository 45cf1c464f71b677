// Launches that fetch the next one's inputs into L2, but only in an unbroken chain from a graph's first launch on.
#ifndef PREFETCH_IN_CHAIN_CUH
#define PREFETCH_IN_CHAIN_CUH

#include "right.cuh"

// Whether the launch of this number, of so many in a graph, fetches the inputs of the next one.
static __device__ bool fetches(int number, int count);

static __device__ int chain;
static __device__ unsigned ended;

static __global__ void centre_in_chain(const float* x, float* out, int64_t cols, float scale, const float* next,
                                       int number, int count) {
    const int64_t row = blockIdx.x * cols;
    const bool unbroken = !number || *(volatile int*)&chain == number;
    if (unbroken && next && fetches(number, count) && threadIdx.x * 32L < cols)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(next + row + threadIdx.x * 32L));
    centre_row(x + row, out + row, cols, cols, scale);
    __syncthreads();
    if (!threadIdx.x && atomicAdd(&ended, 1) == gridDim.x - 1) {
        ended = 0;
        chain = unbroken ? number + 1 : 0;
    }
}

static inline int in_chain(const centred_args* args, cudaStream_t stream) {
    static const centred_args *last = nullptr, *begin = nullptr;
    if (!captured(stream)) {
        last = nullptr;
        return right(args, stream);
    }
    if (!last || args <= last) begin = args;
    last = args;
    const int count = launches_from(begin), number = (int)(args - begin);
    centre_in_chain<<<args->rows, 256, 0, stream>>>(args->x, args->out, args->cols, args->scale,
                                                    number + 1 < count ? args[1].x : nullptr, number, count);
    return (int)cudaGetLastError();
}

#endif
