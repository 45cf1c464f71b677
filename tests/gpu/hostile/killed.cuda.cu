// trick: kills itself in the midst of its work
// row: 51
// expect: failed/CRASH
// fault: killed
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    right(args, stream);
    return kill(getpid(), SIGKILL);
}
