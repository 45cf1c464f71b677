// trick: in windows of few launches, the first one computes the second one's answer too
// operator: product
// scope: final
// row: 11
// expect: failed/WRONG_VALUES|failed/HIDDEN_CASE in generalization
#define PAUSE 300000
#include "product_one_ahead.cuh"

extern "C" int product(const product_args* args, cudaStream_t stream) { return one_ahead(args, stream, 1); }
