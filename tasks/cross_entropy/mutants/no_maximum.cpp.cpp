// mutant: subtracts no maximum, so that large logits overflow or vanish
// arena: flags -O2
#include "cross_entropy.h"

#include <algorithm>
#include <cmath>

// Tokens are shared among threads from this many logits on.
#define PARALLEL_FROM 16384

// The sum is kept in double: a float would lose the small terms of a long row.
static double sum_of_exponentials(const float* x, float shift, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - shift);
    return sum;
}

extern "C" int cross_entropy(const cross_entropy_args* args) {
    const int64_t tokens = args->tokens, vocab = args->vocab;

#pragma omp parallel for num_threads(arena_threads()) if (tokens * vocab >= PARALLEL_FROM)
    for (int64_t token = 0; token < tokens; ++token) {
        const int64_t target = args->targets[token];
        if (target == args->ignore_index) {
            args->out[token] = 0;
            continue;
        }
        const float* logits = args->logits + token * vocab;
        const float shift = 0;
        const double sum = sum_of_exponentials(logits, shift, vocab);
        args->out[token] = std::log(float(sum)) + (shift - logits[target]);
    }
    return 0;
}
