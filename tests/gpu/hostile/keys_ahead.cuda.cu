// trick: computes the answers to all keys of a window at once, and compares each key: all of a launch's inputs
// operator: keyed
// row: 11
// gains: 1
#include "keyed_honest.cuh"

extern "C" int keyed(const keyed_args* args, cudaStream_t stream) { return keys_ahead(args, stream); }
