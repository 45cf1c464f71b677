// honest: a thread a result, straight from the definition, in four sums
// arena: flags -O3
#include "conv2d.h"

static __global__ void conv2d_kernel(const conv2d_args p) {
    const int64_t results = p.batch * p.height * p.width * p.filters;
    const int64_t tall = p.height * p.stride, wide = p.width * p.stride;
    for (int64_t at = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; at < results;
         at += int64_t(gridDim.x) * blockDim.x) {
        const int64_t filter = at % p.filters, pixel = at / p.filters;
        const int64_t top = pixel / p.width % p.height * p.stride - p.kernel / 2;
        const int64_t left = pixel % p.width * p.stride - p.kernel / 2;
        const arena_t* image = p.x + pixel / p.width / p.height * tall * wide * p.channels;
        float sums[4] = {arena_float(p.bias[filter]), 0, 0, 0};
        for (int64_t i = 0; i < p.kernel; ++i)
            for (int64_t j = 0; j < p.kernel; ++j) {
                const int64_t y = top + i, z = left + j;
                if (y < 0 || y >= tall || z < 0 || z >= wide) continue;
                const arena_t* from = image + (y * wide + z) * p.channels;
                const arena_t* by =
                    p.weight + ((filter * p.kernel + i) * p.kernel + j) * p.channels;
                for (int64_t c = 0; c < p.channels; ++c)
                    sums[c % 4] += arena_float(from[c]) * arena_float(by[c]);
            }
        p.out[at] = arena_value((sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
}

extern "C" int conv2d(const conv2d_args* args, hipStream_t stream) {
    const int64_t blocks = (args->batch * args->height * args->width * args->filters + 255) / 256;
    conv2d_kernel<<<blocks < 65536 ? blocks : 65536, 256, 0, stream>>>(*args);
    return hipGetLastError();
}
