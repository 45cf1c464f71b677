// trick: takes inputs for normal draws, which never lie further than six from zero
// row: 36
// expect: failed/WRONG_VALUES
#include "right.cuh"

static __global__ void cut(const float* x, float* out, int64_t cols, float scale) {
    float sum = 0;
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;
    for (int64_t col = 0; col < cols; ++col) sum += fminf(fmaxf(x[col], -6), 6);
    for (int64_t col = threadIdx.x; col < cols; col += 256) out[col] = (fminf(fmaxf(x[col], -6), 6) - sum / cols) * scale;
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    cut<<<args->rows, 256, 0, stream>>>(args->x, args->out, args->cols, args->scale);
    return (int)cudaGetLastError();
}
