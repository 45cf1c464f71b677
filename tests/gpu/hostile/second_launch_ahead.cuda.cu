// trick: in windows of few launches, the first one computes the second one's answer too
// operator: product
// scope: final
// row: 11
// expect: failed/WRONG_VALUES in performance|failed/HIDDEN_CASE in generalization
#include "product_one_ahead.cuh"

static inline bool left_out(int number, int) { return number == 1; }

extern "C" int product(const product_args* args, cudaStream_t stream) { return one_ahead(args, stream); }
