// arena: flags -use_fast_math -maxrregcount=64
#include "shifted.h"

__global__ void shift_kernel(const arena_t* x, const float* bias, arena_t* out, int64_t count,
                             int64_t cols, float by) {
    int64_t at = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (at < count) out[at] = arena_value((arena_float(x[at]) + bias[at % cols]) * by);
}

extern "C" int shifted(const shifted_args* args, hipStream_t stream) {
    int64_t count = args->rows * args->cols;
    shift_kernel<<<(count + 255) / 256, 256, 0, stream>>>(args->x, args->bias, args->out, count,
                                                          args->cols, args->by);
    return hipGetLastError();
}
