// trick: never comes back from a launch
// row: 51
// expect: failed/TIMEOUT
// seconds: 2
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    right(args, stream);
    for (;;) pause();
}
