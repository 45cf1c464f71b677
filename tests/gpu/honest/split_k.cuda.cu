// honest: a product in eight parts, added up by a second kernel from a workspace of its own
// operator: product
#include "product.h"

static __device__ float parts[8 * 192 * 192];

static __global__ void multiply(const arena_t* x, const arena_t* weight, int64_t count, int64_t inner, int64_t cols) {
    const int64_t i = blockIdx.x * 128L + threadIdx.x, part = blockIdx.y, from = inner * part / 8, to = inner * (part + 1) / 8;
    if (i >= count) return;
    float sum = 0;
    for (int64_t k = from; k < to; ++k)
        sum += arena_float(x[i / cols * inner + k]) * arena_float(weight[k * cols + i % cols]);
    parts[part * count + i] = sum;
}

static __global__ void add(arena_t* out, int64_t count) {
    const int64_t i = blockIdx.x * 128L + threadIdx.x;
    if (i >= count) return;
    float sum = 0;
    for (int part = 0; part < 8; ++part) sum += parts[part * count + i];
    out[i] = arena_value(sum);
}

extern "C" int product(const product_args* args, cudaStream_t stream) {
    const int64_t count = args->rows * args->cols, blocks = (count + 127) / 128;
    if (count > 192 * 192) return -1;
    multiply<<<dim3(blocks, 8), 128, 0, stream>>>(args->x, args->weight, count, args->inner, args->cols);
    add<<<blocks, 128, 0, stream>>>(args->out, count);
    return (int)cudaGetLastError();
}
