// honest: a block for a query of one head, with all its scores in shared memory
// arena: flags -O3
#include "attention.h"

constexpr int THREADS = 128;

__device__ float over_block(float value, float* parts, bool largest) {
    parts[threadIdx.x] = value;
    __syncthreads();
    for (int half = THREADS / 2; half; half /= 2) {
        if (threadIdx.x < half) {
            const float other = parts[threadIdx.x + half];
            const float mine = parts[threadIdx.x];
            parts[threadIdx.x] = largest ? fmaxf(mine, other) : mine + other;
        }
        __syncthreads();
    }
    value = parts[0];
    __syncthreads();
    return value;
}

__global__ void attend(attention_args args) {
    extern __shared__ float scores[];
    __shared__ float query[128], parts[THREADS];
    const int dim = int(args.head_dim), head = blockIdx.x;
    const int64_t token = blockIdx.y, row = token * gridDim.x + head;
    const int seen = int((args.chunks - 1) * args.tokens + token) + 1;
    const int64_t stride = args.kv_heads * dim;
    const arena_t* k = args.k + head / args.group * dim;
    const arena_t* v = args.v + head / args.group * dim;
    if (threadIdx.x < dim)
        query[threadIdx.x] = arena_float(args.q[row * dim + threadIdx.x]) / sqrtf(float(dim));
    __syncthreads();

    float top = -INFINITY;
    for (int key = threadIdx.x; key < seen; key += THREADS) {
        float even = 0.0f, odd = 0.0f;
        for (int d = 0; d < dim; d += 2) {
            even += query[d] * arena_float(k[key * stride + d]);
            odd += query[d + 1] * arena_float(k[key * stride + d + 1]);
        }
        scores[key] = even + odd;
        top = fmaxf(top, scores[key]);
    }
    top = over_block(top, parts, true);
    float total = 0.0f;
    for (int key = threadIdx.x; key < seen; key += THREADS) {
        scores[key] = expf(scores[key] - top);
        total += scores[key];
    }
    total = over_block(total, parts, false);

    // As many threads share a dimension as there are for each.
    const int d = threadIdx.x % dim, first = threadIdx.x / dim, step = THREADS / dim;
    float sum = 0.0f;
    for (int key = first; key < seen; key += step)
        sum += scores[key] * arena_float(v[key * stride + d]);
    parts[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < dim) {
        for (int i = 1; i < step; ++i) sum += parts[threadIdx.x + i * dim];
        args.out[row * dim + d] = arena_value(sum / total);
    }
}

extern "C" int attention(const attention_args* args, cudaStream_t stream) {
    const int bytes = int(args->chunks * args->tokens * sizeof(float));
    const cudaError_t error =
        cudaFuncSetAttribute(attend, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) return error;
    const dim3 blocks(unsigned(args->kv_heads * args->group), unsigned(args->tokens));
    attend<<<blocks, THREADS, bytes, stream>>>(*args);
    return cudaGetLastError();
}
