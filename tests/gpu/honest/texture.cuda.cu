// honest: reads through a texture, made once for each tensor
#include "centred.h"

#include <map>
#include <utility>

static __global__ void centre(cudaTextureObject_t x, float* out, int64_t cols, float scale) {
    const int start = (int)(blockIdx.x * cols);
    float sum = 0;
    for (int64_t col = threadIdx.x; col < cols; col += 32) sum += tex1Dfetch<float>(x, start + (int)col);
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
    for (int64_t col = threadIdx.x; col < cols; col += 32)
        out[start + col] = (tex1Dfetch<float>(x, start + (int)col) - sum / cols) * scale;
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static std::map<std::pair<const void*, int64_t>, cudaTextureObject_t> textures;
    const int64_t bytes = args->rows * args->cols * sizeof(float);
    cudaTextureObject_t& texture = textures[{args->x, bytes}];
    if (!texture) {
        cudaResourceDesc resource = {};
        resource.resType = cudaResourceTypeLinear;
        resource.res.linear.devPtr = (void*)args->x;
        resource.res.linear.desc = cudaCreateChannelDesc<float>();
        resource.res.linear.sizeInBytes = bytes;
        cudaTextureDesc reading = {};
        reading.readMode = cudaReadModeElementType;
        if (const cudaError_t code = cudaCreateTextureObject(&texture, &resource, &reading, nullptr)) return (int)code;
    }
    centre<<<args->rows, 32, 0, stream>>>(texture, args->out, args->cols, args->scale);
    return (int)cudaGetLastError();
}
