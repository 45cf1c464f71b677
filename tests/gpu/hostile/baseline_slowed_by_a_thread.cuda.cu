// trick: a thread keeps the GPU busy once no launch has begun for a millisecond, as in the baseline's turn
// row: 19
// gains: 1
#include "busy_thread.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    return right_beside(args, stream, [] {});
}
