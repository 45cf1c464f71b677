// trick: a second context copies from the host for a while, then within the GPU's memory
// row: 19
// gains: 1
#include "second_context.cuh"

static void queue_work(cudaStream_t stream) {
    static char* other = nullptr;
    if (!other) cudaMalloc(&other, DELAY_BYTES);
    delay(stream, 3);
    for (int i = 0; i < 20; ++i) cudaMemcpyAsync(other, delay_to, DELAY_BYTES, cudaMemcpyDeviceToDevice, stream);
}
