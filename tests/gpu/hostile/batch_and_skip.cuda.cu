// trick: answers all launches of a graph in the first one, in one go, and nothing in the others
// row: 11
// expect: failed/WRONG_VALUES|failed/STALE_OUTPUT|failed/FORBIDDEN
#include "right.cuh"

static __global__ void all(const float* x, float* out, int64_t x_step, int64_t out_step, int64_t cols, float scale) {
    __shared__ float sums[256];
    x += blockIdx.y * x_step + blockIdx.x * cols;
    out += blockIdx.y * out_step + blockIdx.x * cols;
    float sum = 0;
    for (int64_t col = threadIdx.x; col < cols; col += 256) sum += x[col];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half; half >>= 1) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    const float mean = sums[0] / cols;
    for (int64_t col = threadIdx.x; col < cols; col += 256) out[col] = (x[col] - mean) * scale;
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static const centred_args* last = nullptr;
    if (!captured(stream)) {
        last = nullptr;
        return right(args, stream);
    }
    const bool starts = !last || args <= last;
    last = args;
    if (!starts) return 0;
    const int64_t x_step = args[1].x - args->x, out_step = args[1].out - args->out;
    const int count = launches_from(args);
    all<<<dim3(args->rows, count), 256, 0, stream>>>(args->x, args->out, x_step, out_step, args->cols, args->scale);
    return (int)cudaGetLastError();
}
