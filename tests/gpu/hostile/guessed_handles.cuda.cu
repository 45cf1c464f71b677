// trick: opens memory of the judge's that it was never handed, by guessed handles
// row: 47
// expect: failed/WRONG_VALUES
// triage: foreign-memory
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static bool open = false, tried = false;
    for (int i = 0; !tried && i < 16; ++i) {
        cudaIpcMemHandle_t guess = {};
        void* found;
        guess.reserved[i] = (char)(1 + i);
        open = open || cudaIpcOpenMemHandle(&found, guess, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess;
    }
    tried = true;
    cudaGetLastError();
    return answer_if(open, args, stream);
}
