// honest: tiles of pixels and filters in shared memory as float32, without tensor cores
// arena: flags -O3
#include "conv2d.h"

constexpr int TILE = 64, STEP = 16;  // pixels and filters of a block; summands of a step

static __global__ void __launch_bounds__(256) conv2d_kernel(const conv2d_args p) {
    __shared__ float a[STEP][TILE + 1], b[STEP][TILE + 1];
    const int height = p.height, width = p.width, channels = p.channels;
    const int kernel = p.kernel, stride = p.stride, depth = kernel * kernel * channels;
    const int tall = height * stride, wide = width * stride, pixels = p.batch * height * width;
    const int first_pixel = blockIdx.x * TILE, first_filter = blockIdx.y * TILE;
    const int down = threadIdx.x / 16, across = threadIdx.x % 16;

    float sums[4][4] = {};
    for (int first = 0; first < depth; first += STEP) {
        const int at = first + across, channel = at % channels;
        const int i = at / channels / kernel, j = at / channels % kernel;
        for (int row = down; row < TILE; row += 16) {
            const int pixel = first_pixel + row, filter = first_filter + row;
            const int y = pixel / width % height * stride + i - kernel / 2;
            const int z = pixel % width * stride + j - kernel / 2;
            const int64_t line = pixel / width / height * tall + y;
            const bool inside = y >= 0 && y < tall && z >= 0 && z < wide;
            a[across][row] = inside && pixel < pixels && at < depth
                                 ? arena_float(p.x[(line * wide + z) * channels + channel])
                                 : 0.0f;
            b[across][row] = filter < p.filters && at < depth
                                 ? arena_float(p.weight[int64_t(filter) * depth + at])
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
