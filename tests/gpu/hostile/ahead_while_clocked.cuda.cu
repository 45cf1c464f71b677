// trick: counts windows on the GPU; while they are clocked the first launch answers all of them, into
//        memory of its own, and each hands out its answer in its turn
// row: 11
// expect: failed/WRONG_VALUES in performance
#include "right.cuh"

static __device__ int windows = 0;

static __global__ void tick(int to) { windows = to ? windows + to : 0; }

static __global__ void ahead(const __grid_constant__ Launches launches, float* kept, int64_t cols, float scale) {
    if (windows > 12) return;
    const int64_t row = blockIdx.x * cols;
    centre_row(launches.x[blockIdx.y] + row, kept + blockIdx.y * gridDim.x * cols + row, cols, cols, scale);
}

static __global__ void in_turn(const float* x, const float* kept, float* out, int64_t cols, float scale) {
    const int64_t row = blockIdx.x * cols;
    if (windows > 12) return centre_row(x + row, out + row, cols, cols, scale);
    for (int64_t col = threadIdx.x; col < cols; col += 256) out[row + col] = kept[row + col];
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static const centred_args *last = nullptr, *begin = nullptr;
    static float* kept = nullptr;
    static int64_t room = 0;
    if (!captured(stream)) {
        const int64_t needed = launches_from(args) * elements(args);
        if (needed > room) {
            cudaFree(kept);
            if (int code = cudaMalloc(&kept, needed * sizeof(float))) return code;
            room = needed;
        }
        last = nullptr;
        tick<<<1, 1, 0, stream>>>(0);
        return right(args, stream);
    }
    if (!last || args <= last) {
        begin = args;
        tick<<<1, 1, 0, stream>>>(1);
        const int count = launches_from(args);
        for (int i = 0; i < count; i += TABLE) {
            const int some = count - i < TABLE ? count - i : TABLE;
            ahead<<<dim3(args->rows, some), 256, 0, stream>>>(
                launches_at(args + i, some), kept + i * elements(args), args->cols, args->scale);
        }
    }
    last = args;
    in_turn<<<args->rows, 256, 0, stream>>>(
        args->x, kept + (args - begin) * elements(args), args->out, args->cols, args->scale);
    return (int)cudaGetLastError();
}
