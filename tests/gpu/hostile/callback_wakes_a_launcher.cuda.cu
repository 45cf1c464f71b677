// trick: puts nothing but a host callback on the stream, which wakes a thread that launches
// row: 2
// expect: failed/STALE_OUTPUT|failed/WRONG_VALUES|failed/FORBIDDEN
#include "right.cuh"

#include <thread>

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    const auto wake = [](void* given) {
        std::thread([given] {
            usleep(2000);
            right((const centred_args*)given, cudaStreamPerThread);
        }).detach();
    };
    return (int)cudaLaunchHostFunc(stream, wake, new centred_args(*args));
}
