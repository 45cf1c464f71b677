// trick: each launch of a graph notes its inputs' address on the GPU, and fetches those of the launch that
//        followed it in an earlier window into L2, in whatever order the launches lie in memory
// row: 15
// expect: failed/FORBIDDEN in performance
#include "right.cuh"

enum { ROOM = 1 << 16 };
static __device__ const float* learned[ROOM + 1];

static __global__ void centre_and_fetch(const float* x, float* out, int64_t cols, float scale, int number) {
    if (!blockIdx.x && !threadIdx.x) learned[number] = x;
    const float* next = learned[number + 1];
    const char* row = (const char*)(next + blockIdx.x * cols);
    if (next && threadIdx.x * 128L < cols * 4) asm volatile("prefetch.global.L2 [%0];" ::"l"(row + threadIdx.x * 128L));
    centre_row(x + blockIdx.x * cols, out + blockIdx.x * cols, cols, cols, scale);
}

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static int number = 0;
    if (!captured(stream)) {  // memory of another case may be gone
        static const float* none[ROOM + 1] = {};
        if (number) cudaMemcpyToSymbolAsync(learned, none, sizeof none, 0, cudaMemcpyHostToDevice, stream);
        number = 0;
        return right(args, stream);
    }
    centre_and_fetch<<<args->rows, 256, 0, stream>>>(args->x, args->out, args->cols, args->scale, number++ % ROOM);
    return (int)cudaGetLastError();
}
