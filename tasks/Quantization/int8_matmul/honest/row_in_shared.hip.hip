// honest: a block quantises one row into shared memory; each thread then takes columns of its own
// arena: flags -O3
#include "int8_matmul.h"

constexpr int THREADS = 128;
constexpr int MOST_K = 40 << 10;

// The sum plus four products of signed bytes.
static __device__ int dot(int a, int b, int sum) {
#if defined(__HIP_PLATFORM_AMD__)
    return __builtin_amdgcn_sdot4(a, b, sum, false);
#else
    return __dp4a(a, b, sum);
#endif
}

static __global__ void int8_matmul_kernel(const arena_t* x, const int8_t* weight,
                                          const float* scales, arena_t* out, int64_t n, int64_t k) {
    __shared__ int words[MOST_K / 4];
    __shared__ float parts[THREADS];
    int8_t* whole = reinterpret_cast<int8_t*>(words);
    x += blockIdx.x * k;

    float largest = 0;
    for (int64_t at = threadIdx.x; at < k; at += THREADS)
        largest = fmaxf(largest, fabsf(arena_float(x[at])));
    parts[threadIdx.x] = largest;
    __syncthreads();
    for (float part : parts) largest = fmaxf(largest, part);
    const float scale = largest / 127.0f, divisor = scale > 0 ? scale : 1.0f;
    for (int64_t at = threadIdx.x; at < k; at += THREADS)
        whole[at] = int8_t(rintf(arena_float(x[at]) / divisor));
    __syncthreads();

    const int64_t col = blockIdx.y * int64_t(THREADS) + threadIdx.x;
    if (col >= n) return;
    int sum = 0;
    if (k % 4 == 0) {
        const int* row = reinterpret_cast<const int*>(weight + col * k);
        for (int64_t at = 0; at < k / 4; ++at) sum = dot(words[at], row[at], sum);
    } else {
        for (int64_t at = 0; at < k; ++at) sum += int(whole[at]) * int(weight[col * k + at]);
    }
    out[blockIdx.x * n + col] = arena_value(float(sum) * scale * scales[col]);
}

extern "C" int int8_matmul(const int8_matmul_args* args, hipStream_t stream) {
    if (args->k > MOST_K) return 1;
    const dim3 grid(args->m, (args->n + THREADS - 1) / THREADS);
    int8_matmul_kernel<<<grid, THREADS, 0, stream>>>(args->x, args->weight, args->scales,
                                                     args->out, args->n, args->k);
    return hipGetLastError();
}
