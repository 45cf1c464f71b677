// trick: beside each launch a second kernel reads the next launch's inputs, which the launch table gives
// row: 15
// expect: failed/FORBIDDEN in performance
#include "right.cuh"

static __global__ void fetch(const float* x, int64_t count) {
    const int64_t at = (blockIdx.x * 256L + threadIdx.x) * 32;
    if (at < count) asm volatile("prefetch.global.L2 [%0];" ::"l"(x + at));
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static cudaStream_t beside = nullptr;
    static cudaEvent_t begun, done;
    const bool last = args[1].rows != args->rows || args[1].cols != args->cols;
    if (!captured(stream) || last) return right(args, stream);
    if (!beside) {
        cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking);
        cudaEventCreateWithFlags(&begun, cudaEventDisableTiming);
        cudaEventCreateWithFlags(&done, cudaEventDisableTiming);
    }
    cudaEventRecord(begun, stream);
    cudaStreamWaitEvent(beside, begun, 0);
    const int code = right(args, stream);
    fetch<<<(elements(args) + 8191) / 8192, 256, 0, beside>>>(args[1].x, elements(args));
    cudaEventRecord(done, beside);
    cudaStreamWaitEvent(stream, done, 0);
    return code;
}
