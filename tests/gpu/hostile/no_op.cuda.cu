// trick: does nothing
// row: 23
// expect: failed/STALE_OUTPUT
#include "right.cuh"

extern "C" int centred(const centred_args*, cudaStream_t) { return 0; }
