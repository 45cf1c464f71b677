// trick: cheap and wrong in a graph, right when called for one by one
// row: 13
// expect: failed/WRONG_VALUES in performance
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    return captured(stream) ? cheap(args, stream) : right(args, stream);
}
