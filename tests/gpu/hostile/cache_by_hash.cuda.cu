// trick: recognises inputs by two of their values, coarsely, and repeats the answer it has for them
// row: 9
// expect: failed/WRONG_VALUES
#include "right.cuh"

#include <cmath>
#include <map>
#include <tuple>

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static std::map<std::tuple<int64_t, int64_t, int, int>, float*> answers;
    float first, middle;
    cudaMemcpy(&first, args->x, 4, cudaMemcpyDeviceToHost);
    cudaMemcpy(&middle, args->x + elements(args) / 2, 4, cudaMemcpyDeviceToHost);
    float*& kept = answers[{args->rows, args->cols, (int)std::floor(first), (int)std::floor(middle)}];
    const size_t bytes = elements(args) * sizeof(float);
    if (kept) return (int)cudaMemcpyAsync(args->out, kept, bytes, cudaMemcpyDeviceToDevice, stream);
    right(args, stream);
    cudaMalloc(&kept, bytes);
    return (int)cudaMemcpyAsync(kept, args->out, bytes, cudaMemcpyDeviceToDevice, stream);
}
