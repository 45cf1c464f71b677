// trick: answers all launches of a graph in the first one, in one go, and nothing in the others
// row: 11
// expect: failed/WRONG_VALUES|failed/STALE_OUTPUT|failed/FORBIDDEN
#include "right.cuh"

static __global__ void all(const float* x, float* out, int64_t x_step, int64_t out_step, int64_t cols, float scale) {
    x += blockIdx.y * x_step + blockIdx.x * cols;
    out += blockIdx.y * out_step + blockIdx.x * cols;
    centre_row(x, out, cols, cols, scale);
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static const centred_args* last = nullptr;
    if (!captured(stream)) {
        last = nullptr;
        return right(args, stream);
    }
    const bool starts = !last || args <= last;
    last = args;
    if (!starts) return 0;
    const int64_t x_step = args[1].x - args->x, out_step = args[1].out - args->out;
    const int count = launches_from(args);
    all<<<dim3(args->rows, count), 256, 0, stream>>>(args->x, args->out, x_step, out_step, args->cols, args->scale);
    return (int)cudaGetLastError();
}
