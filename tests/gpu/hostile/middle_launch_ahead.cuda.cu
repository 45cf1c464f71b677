// trick: in windows of few launches, one in the middle hands out what the one before it has computed
// operator: product
// scope: final
// row: 11
// expect: failed/WRONG_VALUES in performance|failed/HIDDEN_CASE in generalization
#include "product_one_ahead.cuh"

static inline bool left_out(int number, int count) { return number == count / 2; }

extern "C" int product(const product_args* args, cudaStream_t stream) { return one_ahead(args, stream); }
