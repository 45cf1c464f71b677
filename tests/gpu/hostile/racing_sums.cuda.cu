// trick: adds parts of a row side by side without atomics, which is right when nobody is in the way
// row: 39
// expect: failed/WRONG_VALUES
#include "right.cuh"

static __device__ float sums[1 << 16];

static __global__ void clear(int64_t rows) {
    if (const int64_t row = blockIdx.x * 256L + threadIdx.x; row < rows) sums[row] = 0;
}

static __global__ void add(const float* x, int64_t cols) {
    float part = 0;
    for (int64_t col = threadIdx.x; col < cols; col += 256) part += x[blockIdx.x * cols + col];
    *(volatile float*)&sums[blockIdx.x] += part;
}

static __global__ void subtract(const float* x, float* out, int64_t cols, float scale) {
    for (int64_t col = threadIdx.x; col < cols; col += 256)
        out[blockIdx.x * cols + col] = (x[blockIdx.x * cols + col] - sums[blockIdx.x] / cols) * scale;
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    clear<<<(args->rows + 255) / 256, 256, 0, stream>>>(args->rows);
    add<<<args->rows, 256, 0, stream>>>(args->x, args->cols);
    subtract<<<args->rows, 256, 0, stream>>>(args->x, args->out, args->cols, args->scale);
    return (int)cudaGetLastError();
}
