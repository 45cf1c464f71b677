// trick: computes once for each pair of pointers and repeats that answer
// row: 8
// expect: failed/WRONG_VALUES
#include "right.cuh"

#include <map>
#include <tuple>

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static std::map<std::tuple<const void*, void*, int64_t>, float*> answers;
    float*& kept = answers[{args->x, args->out, elements(args)}];
    const size_t bytes = elements(args) * sizeof(float);
    if (kept) return (int)cudaMemcpyAsync(args->out, kept, bytes, cudaMemcpyDeviceToDevice, stream);
    right(args, stream);
    cudaMalloc(&kept, bytes);
    return (int)cudaMemcpyAsync(kept, args->out, bytes, cudaMemcpyDeviceToDevice, stream);
}
