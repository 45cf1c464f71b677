// trick: does the work and says that it failed
// row: 49
// expect: failed/CALL_ERROR
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) { return right(args, stream) + 1; }
