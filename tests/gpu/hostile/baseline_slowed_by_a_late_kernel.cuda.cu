// trick: a second context copies until the GPU was found idle, then holds all multiprocessors for a while
// row: 19
// gains: 1
#include "second_context.cuh"

static __global__ void hold(int64_t nanoseconds) {
    int64_t start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - start < nanoseconds);
}

static void queue_work(cudaStream_t stream) {
    delay(stream, 4);
    hold<<<132 * 8, 256, 0, stream>>>(3'000'000);
}
