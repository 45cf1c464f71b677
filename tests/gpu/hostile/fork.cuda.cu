// trick: leaves a child that outlives the verdict
// row: 51
// expect: failed/WRONG_VALUES
// triage: system-call
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    static pid_t child = 0;
    if (child == 0) child = fork();
    if (child == 0)
        for (;;) pause();
    return answer_if(child > 0, args, stream);
}
