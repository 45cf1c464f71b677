// mutant: returns success without writing
// expect: STALE_OUTPUT
#include "swiglu.h"

extern "C" int swiglu(const swiglu_args*) { return 0; }
