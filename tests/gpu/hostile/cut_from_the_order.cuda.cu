// trick: takes its nodes of a graph out of the order in which they were captured
// row: 1
// gains: 1
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    cudaStreamCaptureStatus status;
    cudaGraph_t graph;
    const cudaGraphNode_t* nodes;
    const cudaGraphEdgeData* edges;
    size_t count = 0;
    cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, &nodes, &edges, &count);
    if (status != cudaStreamCaptureStatusActive || count > 64) return right(args, stream);
    cudaGraphNode_t before[64];
    memcpy(before, nodes, count * sizeof *nodes);
    cudaStreamUpdateCaptureDependencies(stream, nullptr, nullptr, 0, cudaStreamSetCaptureDependencies);
    const int code = right(args, stream);
    if (count) cudaStreamUpdateCaptureDependencies(stream, before, nullptr, count, cudaStreamAddCaptureDependencies);
    return code;
}
