// trick: writes one element after its output only once it is timed
// row: 40
// expect: failed/OUT_OF_BOUNDS
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static int calls = 0;
    const int code = right(args, stream);
    if (calls++ >= 400) cudaMemsetAsync(args->out + elements(args), 0, 4, stream);
    return code;
}
