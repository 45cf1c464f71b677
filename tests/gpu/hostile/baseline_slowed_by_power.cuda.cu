// trick: a second context has all multiprocessors multiply for long after a copy, to lower the clock
// row: 19
// gains: 1
#include "second_context.cuh"

#include <mma.h>

using namespace nvcuda;

static __global__ void multiply(float* sink, int times) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[4];
    wmma::fill_fragment(a, __float2half(1.3f));
    wmma::fill_fragment(b, __float2half(-0.7f));
    for (auto& sum : sums) wmma::fill_fragment(sum, 0.0f);
    for (int i = 0; i < times; ++i)
        for (auto& sum : sums) wmma::mma_sync(sum, a, b, sum);
    float total = 0;
    for (auto& sum : sums) total += sum.x[0];
    if (total == 1) *sink = total;
}

static void queue_work(cudaStream_t stream) {
    for (int i = 0; i < 3; ++i) {
        delay(stream, 3);
        multiply<<<132 * 8, 256, 0, stream>>>((float*)delay_to, 1500);
    }
}
