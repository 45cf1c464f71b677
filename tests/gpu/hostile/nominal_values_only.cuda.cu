// trick: skips the mean where a look at the first values says that it is nearly zero
// row: 34
// expect: failed/WRONG_VALUES
#include "right.cuh"

static __global__ void sniff(const float* x, float* out, int64_t rows, int64_t cols, float scale) {
    float sum = 0;
    const int64_t some = cols < 8 ? cols : 8;
    for (int64_t col = 0; col < some; ++col) sum += x[col];
    if (fabsf(sum / some) > 2) return;
    for (int64_t i = blockIdx.x * 256L + threadIdx.x; i < rows * cols; i += gridDim.x * 256L) out[i] = x[i] * scale;
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    right(args, stream);
    sniff<<<32, 256, 0, stream>>>(args->x, args->out, args->rows, args->cols, args->scale);
    return (int)cudaGetLastError();
}
