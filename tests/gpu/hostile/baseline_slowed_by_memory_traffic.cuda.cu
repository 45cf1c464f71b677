// trick: a second context copies from the host for a while, then fills the GPU's memory bus and its L2
// row: 19
// gains: 1
#include "second_context.cuh"

static __global__ void stream_through(float* data, int64_t count, int times) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int turn = 0; turn < times; ++turn)
        for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += step) data[i] += 1;
}

static void queue_work(cudaStream_t stream) {
    for (int i = 0; i < 4; ++i) {
        delay(stream, 2.5);
        stream_through<<<132 * 2, 256, 0, stream>>>((float*)delay_to, DELAY_BYTES / 4, 4);
    }
}
