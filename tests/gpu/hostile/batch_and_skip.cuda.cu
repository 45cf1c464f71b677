// trick: answers all launches of a graph in the first one, in one go, and nothing in the others
// row: 11
// expect: failed/WRONG_VALUES|failed/STALE_OUTPUT|failed/FORBIDDEN
#include "right.cuh"

static __global__ void all(const __grid_constant__ Launches launches, int64_t cols, float scale) {
    const int64_t row = blockIdx.x * cols;
    centre_row(launches.x[blockIdx.y] + row, launches.out[blockIdx.y] + row, cols, cols, scale);
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
    const int count = launches_from(args);
    for (int i = 0; i < count; i += TABLE) {
        const int some = count - i < TABLE ? count - i : TABLE;
        all<<<dim3(args->rows, some), 256, 0, stream>>>(launches_at(args + i, some), args->cols, args->scale);
    }
    return (int)cudaGetLastError();
}
