// honest: one kernel; a block finds the scales of its rows, then quantises them as it multiplies
// arena: flags -O3
#include "int8_matmul.h"

constexpr int TILE = 64, DEPTH = 16;  // rows and columns of a block; words of four along k

// Four of a row's weights from `at` on, zeros behind `k`.
static __device__ int word(const int8_t* row, int64_t at, int64_t k) {
    unsigned bits = 0;
    for (int i = 0; i < 4; ++i)
        if (at + i < k) bits |= unsigned(uint8_t(row[at + i])) << 8 * i;
    return int(bits);
}

// The sum plus four products of signed bytes.
static __device__ int dot(int a, int b, int sum) {
#if defined(__HIP_PLATFORM_AMD__)
    return __builtin_amdgcn_sdot4(a, b, sum, false);
#else
    return __dp4a(a, b, sum);
#endif
}

static __global__ void int8_matmul_kernel(const arena_t* x, const int8_t* weight,
                                          const float* scales, arena_t* out, int64_t m, int64_t n,
                                          int64_t k) {
    __shared__ float row_scale[TILE];
    __shared__ int left[DEPTH][TILE + 1], right[DEPTH][TILE + 1];
    const int64_t top = int64_t(blockIdx.x) * TILE, first_col = int64_t(blockIdx.y) * TILE;
    __shared__ float parts[TILE][4];
    const int share = threadIdx.x % 4, of = threadIdx.x / 4;  // four threads find a row's largest
    float largest = 0;
    if (top + of < m)
        for (int64_t at = share; at < k; at += 4)
            largest = fmaxf(largest, fabsf(arena_float(x[(top + of) * k + at])));
    parts[of][share] = largest;
    __syncthreads();
    if (share == 0) {
        for (float part : parts[of]) largest = fmaxf(largest, part);
        row_scale[of] = largest / 127.0f;
    }
    __syncthreads();

    int sums[4][4] = {};
    const int down = threadIdx.x / 16, across = threadIdx.x % 16;
    for (int64_t first = 0; first < k; first += 4 * DEPTH) {
        for (int place = threadIdx.x; place < TILE * DEPTH; place += 256) {
            const int i = place / DEPTH, l = place % DEPTH;
            const int64_t at = first + 4 * l, row = top + i, col = first_col + i;
            const float divisor = row_scale[i] > 0 ? row_scale[i] : 1.0f;
            unsigned bits = 0;
            for (int byte = 0; byte < 4; ++byte)
                if (row < m && at + byte < k) {
                    const float ratio = arena_float(x[row * k + at + byte]) / divisor;
                    bits |= unsigned(uint8_t(int8_t(rintf(ratio)))) << 8 * byte;
                }
            left[l][i] = int(bits);
            right[l][i] = col < n ? word(weight + col * k, at, k) : 0;
        }
        __syncthreads();
        for (int l = 0; l < DEPTH; ++l)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j)
                    sums[i][j] = dot(left[l][down + 16 * i], right[l][across + 16 * j],
                                        sums[i][j]);
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            const int64_t row = top + down + 16 * i, col = first_col + across + 16 * j;
            if (row < m && col < n)
                out[row * n + col] =
                    arena_value(float(sums[i][j]) * (row_scale[down + 16 * i] * scales[col]));
        }
}

extern "C" int int8_matmul(const int8_matmul_args* args, hipStream_t stream) {
    const dim3 grid((args->m + TILE - 1) / TILE, (args->n + TILE - 1) / TILE);
    int8_matmul_kernel<<<grid, 256, 0, stream>>>(args->x, args->weight, args->scales, args->out,
                                                 args->m, args->n, args->k);
    return hipGetLastError();
}
