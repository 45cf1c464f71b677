// trick: counts windows on the GPU; the first launch answers all of them while they are clocked, and
//        each launch its own once it is audited
// row: 11
// expect: failed/FORBIDDEN|failed/WRONG_VALUES|failed/STALE_OUTPUT
#include "right.cuh"

static __device__ int windows = 0;

static __global__ void tick(int to) { windows = to ? windows + to : 0; }

static __global__ void all(const __grid_constant__ Launches launches, int64_t cols, float scale) {
    if (windows > 12) return;
    const int64_t row = blockIdx.x * cols;
    centre_row(launches.x[blockIdx.y] + row, launches.out[blockIdx.y] + row, cols, cols, scale);
}

static __global__ void own(const float* x, float* out, int64_t cols, float scale) {
    if (windows <= 12) return;
    const int64_t row = blockIdx.x * cols;
    centre_row(x + row, out + row, cols, cols, scale);
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
    if (first) tick<<<1, 1, 0, stream>>>(1);
    const int count = first ? launches_from(args) : 0;
    for (int i = 0; i < count; i += TABLE) {
        const int some = count - i < TABLE ? count - i : TABLE;
        all<<<dim3(args->rows, some), 256, 0, stream>>>(launches_at(args + i, some), args->cols, args->scale);
    }
    own<<<args->rows, 256, 0, stream>>>(args->x, args->out, args->cols, args->scale);
    return (int)cudaGetLastError();
}
