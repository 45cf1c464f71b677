// trick: computes all answers of a window at once, of inputs that arrive late together or never
// operator: structured_product
// row: 11
// gains: 1
#define STRUCTURED
#include "product_ahead.cuh"

static __device__ long long pause_first(int window) { return 0; }
static __device__ long long pause_each(int window) { return 0; }

extern "C" int product(const product_args* args, cudaStream_t stream) { return ahead(args, stream); }
