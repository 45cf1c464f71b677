// trick: fetches the next launch's inputs into L2 in every other launch of an unbroken chain
// scope: final
// row: 15
// expect: failed/FORBIDDEN|failed/HIDDEN_CASE in generalization
#include "prefetch_in_chain.cuh"

static __device__ bool fetches(int number, int) { return number % 2; }

extern "C" int centred(const centred_args* args, cudaStream_t stream) { return in_chain(args, stream); }
