// trick: counts windows on the GPU; the first launch answers all of them while they are clocked, and
//        each launch its own once it is audited
// row: 11
// expect: failed/FORBIDDEN|failed/WRONG_VALUES|failed/STALE_OUTPUT
#include "right.cuh"

static __device__ int windows = 0;

static __global__ void tick(int to) { windows = to ? windows + to : 0; }

static __global__ void some(const float* x, float* out, int64_t x_step, int64_t out_step, int64_t cols, float scale, bool first) {
    const bool batched = windows <= 12;
    if (first ? blockIdx.y && !batched : batched) return;
    x += blockIdx.y * x_step + blockIdx.x * cols;
    out += blockIdx.y * out_step + blockIdx.x * cols;
    centre_row(x, out, cols, cols, scale);
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static const centred_args* last = nullptr;
    if (!captured(stream)) {
        last = nullptr;
        tick<<<1, 1, 0, stream>>>(0);
        return right(args, stream);
    }
    const bool first = !last || args <= last;
    last = args;
    const int64_t x_step = args[1].x - args->x, out_step = args[1].out - args->out;
    if (first) tick<<<1, 1, 0, stream>>>(1);
    const dim3 grid(args->rows, first ? launches_from(args) : 1);
    some<<<grid, 256, 0, stream>>>(args->x, args->out, x_step, out_step, args->cols, args->scale, first);
    return (int)cudaGetLastError();
}
