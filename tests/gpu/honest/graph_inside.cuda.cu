// honest: a graph of its own for every set of arguments, launched like a kernel
// captured: no
#include "centred.h"

#include <map>
#include <tuple>

static __global__ void centre(const float* x, float* out, int64_t cols, float scale) {
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;
    float sum = 0;
    for (int64_t col = threadIdx.x; col < cols; col += 32) sum += x[col];
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
    for (int64_t col = threadIdx.x; col < cols; col += 32) out[col] = (x[col] - sum / cols) * scale;
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static std::map<std::tuple<const void*, void*, int64_t, int64_t, float>, cudaGraphExec_t> graphs;
    static cudaStream_t own = nullptr;
    if (!own) cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
    cudaGraphExec_t& kept = graphs[{args->x, args->out, args->rows, args->cols, args->scale}];
    if (!kept) {
        cudaGraph_t graph;
        cudaStreamBeginCapture(own, cudaStreamCaptureModeThreadLocal);
        centre<<<args->rows, 32, 0, own>>>(args->x, args->out, args->cols, args->scale);
        cudaStreamEndCapture(own, &graph);
        if (const cudaError_t code = cudaGraphInstantiate(&kept, graph, 0)) return (int)code;
        cudaGraphDestroy(graph);
    }
    return (int)cudaGraphLaunch(kept, stream);
}
