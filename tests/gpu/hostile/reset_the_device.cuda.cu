// trick: resets the device under the harness that times it
// row: 51
// expect: failed/CRASH|failed/CALL_ERROR|failed/STALE_OUTPUT
// triage: device-state
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    const int code = right(args, stream);
    cudaDeviceReset();
    return code;
}
