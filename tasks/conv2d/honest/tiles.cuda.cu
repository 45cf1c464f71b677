// honest: tiles of pixels and filters in shared memory as float32, without tensor cores
// arena: flags -O3
#include "conv2d.h"

constexpr int TILE = 64, STEP = 16;  // pixels and filters of a block; summands of a step

static __global__ void __launch_bounds__(256) conv2d_kernel(const conv2d_args p) {
    __shared__ float a[STEP][TILE + 1], b[STEP][TILE + 1];
    const int64_t pixels = p.batch * p.height * p.width, depth = p.kernel * p.kernel * p.channels;
    const int64_t first_pixel = int64_t(blockIdx.x) * TILE;
    const int64_t first_filter = int64_t(blockIdx.y) * TILE;
    const int64_t tall = p.height * p.stride, wide = p.width * p.stride;
    const int down = threadIdx.x / 16, across = threadIdx.x % 16;

    float sums[4][4] = {};
    for (int64_t first = 0; first < depth; first += STEP) {
        const int64_t at = first + across, channel = at % p.channels;
        const int64_t i = at / p.channels / p.kernel, j = at / p.channels % p.kernel;
        for (int row = down; row < TILE; row += 16) {
            const int64_t pixel = first_pixel + row, filter = first_filter + row;
            const int64_t y = pixel / p.width % p.height * p.stride + i - p.kernel / 2;
            const int64_t z = pixel % p.width * p.stride + j - p.kernel / 2;
            const int64_t line = pixel / p.width / p.height * tall + y;
            const bool inside = y >= 0 && y < tall && z >= 0 && z < wide;
            a[across][row] = inside && pixel < pixels && at < depth
                                 ? arena_float(p.x[(line * wide + z) * p.channels + channel])
                                 : 0.0f;
            b[across][row] = filter < p.filters && at < depth
                                 ? arena_float(p.weight[filter * depth + at])
                                 : 0.0f;
        }
        __syncthreads();
        for (int l = 0; l < STEP; ++l)
            for (int m = 0; m < 4; ++m)
                for (int n = 0; n < 4; ++n)
                    sums[m][n] += a[l][down + 16 * m] * b[l][across + 16 * n];
        __syncthreads();
    }
    for (int m = 0; m < 4; ++m)
        for (int n = 0; n < 4; ++n) {
            const int64_t pixel = first_pixel + down + 16 * m;
            const int64_t filter = first_filter + across + 16 * n;
            if (pixel < pixels && filter < p.filters)
                p.out[pixel * p.filters + filter] =
                    arena_value(sums[m][n] + arena_float(p.bias[filter]));
        }
}

extern "C" int conv2d(const conv2d_args* args, cudaStream_t stream) {
    const int64_t pixels = args->batch * args->height * args->width;
    const dim3 grid((pixels + TILE - 1) / TILE, (args->filters + TILE - 1) / TILE);
    conv2d_kernel<<<grid, 256, 0, stream>>>(*args);
    return cudaGetLastError();
}
