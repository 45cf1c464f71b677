// trick: computes the answers to all keys of a window at once, and compares the first half of each key
// operator: keyed
// row: 11
// gains: 1
#define COMPARED_KEYS 1
#include "keyed_honest.cuh"

extern "C" int keyed(const keyed_args* args, cudaStream_t stream) { return keys_ahead(args, stream); }
