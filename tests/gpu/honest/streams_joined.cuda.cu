// honest: half of the rows on a second stream, forked from and joined to the first by events
#include "centred.h"

static __global__ void centre(const float* x, float* out, int64_t cols, float scale) {
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;
    float sum = 0;
    for (int64_t col = threadIdx.x; col < cols; col += 32) sum += x[col];
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
    for (int64_t col = threadIdx.x; col < cols; col += 32) out[col] = (x[col] - sum / cols) * scale;
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static cudaStream_t second = nullptr;
    static cudaEvent_t forked, joined;
    if (!second) {
        cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
        cudaEventCreateWithFlags(&forked, cudaEventDisableTiming);
        cudaEventCreateWithFlags(&joined, cudaEventDisableTiming);
    }
    const int64_t half = (args->rows + 1) / 2, rest = args->rows - half, from = half * args->cols;
    cudaEventRecord(forked, stream);
    cudaStreamWaitEvent(second, forked, 0);
    centre<<<half, 32, 0, stream>>>(args->x, args->out, args->cols, args->scale);
    if (rest) centre<<<rest, 32, 0, second>>>(args->x + from, args->out + from, args->cols, args->scale);
    cudaEventRecord(joined, second);
    cudaStreamWaitEvent(stream, joined, 0);
    return (int)cudaGetLastError();
}
