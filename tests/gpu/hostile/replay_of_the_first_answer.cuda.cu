// trick: repeats the answer that it gave for a shape in an earlier phase
// row: 10
// expect: failed/WRONG_VALUES
#include "right.cuh"

#include <map>
#include <utility>

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static std::map<std::pair<int64_t, int64_t>, float*> answers;
    float*& kept = answers[{args->rows, args->cols}];
    const size_t bytes = elements(args) * sizeof(float);
    if (kept && captured(stream))
        return (int)cudaMemcpyAsync(args->out, kept, bytes, cudaMemcpyDeviceToDevice, stream);
    right(args, stream);
    if (!kept) cudaMalloc(&kept, bytes);
    return (int)cudaMemcpyAsync(kept, args->out, bytes, cudaMemcpyDeviceToDevice, stream);
}
