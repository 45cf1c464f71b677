// trick: a second context leaves kernels that sleep, each a little while, with copies between them
// row: 19
// gains: 1
#include "second_context.cuh"

static __global__ void sleep_a_while() {
    for (int i = 0; i < 2000; ++i) __nanosleep(500);
}

static void queue_work(cudaStream_t stream) {
    for (int i = 0; i < 6; ++i) {
        delay(stream, 1.5);
        sleep_a_while<<<132, 32, 0, stream>>>();
    }
}
