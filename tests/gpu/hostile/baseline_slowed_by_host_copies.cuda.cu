// trick: a second context goes on copying from and to the host, which needs no multiprocessor
// row: 19
// gains: 1
#include "second_context.cuh"

static void queue_work(cudaStream_t stream) {
    static cudaStream_t back = nullptr;
    if (!back) cudaStreamCreateWithFlags(&back, cudaStreamNonBlocking);
    for (int i = 0; i < 2; ++i) {
        cudaMemcpyAsync(delay_to, delay_from, DELAY_BYTES, cudaMemcpyHostToDevice, stream);
        cudaMemcpyAsync(delay_from, delay_to, DELAY_BYTES, cudaMemcpyDeviceToHost, back);
    }
}
