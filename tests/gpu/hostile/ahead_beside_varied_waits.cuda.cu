// trick: computes all answers of a window before the first one, and waits for another time in each window
// operator: product
// row: 11, 16
// gains: 1
#include "product_ahead.cuh"

static __device__ long long pause_first(int window) { return (window * 2654435761u >> 8) % 4000000; }
static __device__ long long pause_each(int window) { return 0; }

extern "C" int product(const product_args* args, cudaStream_t stream) { return ahead(args, stream); }
