// mutant: returns success without writing
// expect: STALE_OUTPUT
#include "rope.h"

extern "C" int rope(const rope_args*) { return 0; }
