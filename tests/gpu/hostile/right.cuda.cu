// The right answer, for tricks that give it at times, and what a trick gives when it got what it wanted.
#ifndef RIGHT_CUH
#define RIGHT_CUH

#include "centred.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int64_t elements(const centred_args* args) { return args->rows * args->cols; }

// One row, by a block of 256 threads.
static __device__ inline void centre_row(const float* x, float* out, int64_t cols, int64_t counted, float scale) {
    __shared__ float sums[256];
    float sum = 0;
    for (int64_t col = threadIdx.x; col < counted; col += 256) sum += x[col];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half; half >>= 1) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    const float mean = sums[0] / counted;
    for (int64_t col = threadIdx.x; col < cols; col += 256) out[col] = (x[col] - mean) * scale;
}

static __global__ void centre(const float* x, float* out, int64_t cols, int64_t counted, float scale) {
    centre_row(x + blockIdx.x * cols, out + blockIdx.x * cols, cols, counted, scale);
}

static __global__ void spoil(const float* x, float* out, int64_t count) {
    const int64_t i = blockIdx.x * 256L + threadIdx.x;
    if (i < count) out[i] += 1 + x[i] * x[i];
}

static inline int right(const centred_args* args, cudaStream_t stream) {
    centre<<<args->rows, 256, 0, stream>>>(args->x, args->out, args->cols, args->cols, args->scale);
    return (int)cudaGetLastError();
}

// The mean of the first eighth of a row for that of all.
[[maybe_unused]] static inline int cheap(const centred_args* args, cudaStream_t stream) {
    centre<<<args->rows, 256, 0, stream>>>(args->x, args->out, args->cols, args->cols / 8 + 1, args->scale);
    return (int)cudaGetLastError();
}

// Right only if a door stood open: a passing verdict then means that it did.
[[maybe_unused]] static inline int answer_if(bool open, const centred_args* args, cudaStream_t stream) {
    const int code = right(args, stream);
    if (!open) spoil<<<(elements(args) + 255) / 256, 256, 0, stream>>>(args->x, args->out, elements(args));
    return code;
}

// Launches lie in a table: so many from this one on.
[[maybe_unused]] static inline int launches_from(const centred_args* args) {
    int count = 1;
    while (args[count].rows == args->rows && args[count].cols == args->cols && args[count].scale == args->scale) ++count;
    return count;
}

// Their tensors lie in a secret order, so a kernel gets the addresses of up to so many launches.
enum { TABLE = 128 };
struct Launches {
    const float* x[TABLE];
    float* out[TABLE];
};

[[maybe_unused]] static inline Launches launches_at(const centred_args* args, int count) {
    Launches found = {};
    for (int i = 0; i < count; ++i) {
        found.x[i] = args[i].x;
        found.out[i] = args[i].out;
    }
    return found;
}

[[maybe_unused]] static inline bool captured(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(stream, &status);
    return status == cudaStreamCaptureStatusActive;
}

#endif
