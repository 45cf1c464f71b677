// trick: ends its process with the code of success
// row: 49
// expect: failed/CRASH
#include "right.cuh"

extern "C" int centred(const centred_args*, cudaStream_t) { _exit(0); }
