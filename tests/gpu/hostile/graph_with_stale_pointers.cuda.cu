// trick: captures the work once for each shape, and replays it whatever it is given
// row: 14
// expect: failed/STALE_OUTPUT|failed/WRONG_VALUES
#include "right.cuh"

#include <map>
#include <utility>

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static std::map<std::pair<int64_t, int64_t>, cudaGraphExec_t> graphs;
    cudaGraphExec_t& kept = graphs[{args->rows, args->cols}];
    if (!kept) {
        cudaStream_t own;
        cudaGraph_t graph;
        cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
        cudaStreamBeginCapture(own, cudaStreamCaptureModeRelaxed);
        right(args, own);
        cudaStreamEndCapture(own, &graph);
        cudaGraphInstantiate(&kept, graph, 0);
    }
    return (int)cudaGraphLaunch(kept, stream);
}
