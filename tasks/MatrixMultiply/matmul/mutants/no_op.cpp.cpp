// mutant: returns success without writing
// expect: STALE_OUTPUT
#include "matmul.h"

extern "C" int matmul(const matmul_args*) { return 0; }
