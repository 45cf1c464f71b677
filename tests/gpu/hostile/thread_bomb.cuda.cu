// trick: starts threads without end
// row: 51
// expect: failed/FORBIDDEN|failed/CRASH|failed/CALL_ERROR
#include "right.cuh"

#include <thread>

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    for (int i = 0; i < 4000; ++i) std::thread([] { pause(); }).detach();
    return right(args, stream);
}
