// trick: leaves out one launch in ten of a graph
// row: 13
// expect: failed/STALE_OUTPUT in performance
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static int calls = 0;
    return captured(stream) && ++calls % 10 == 0 ? 0 : right(args, stream);
}
