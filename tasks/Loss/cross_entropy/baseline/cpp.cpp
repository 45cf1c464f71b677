// Cross entropy, one token at a time: the largest logit, then the sum of exponentials below it.
// arena: tune-flags "-O2" "-O3" "-O3 -march=native" "-O3 -ffast-math" "-O3 -ffast-math -march=native" "-O3 -ffast-math -march=native -mprefer-vector-width=512"
// arena: flags -O2
#include "cross_entropy.h"

#include <algorithm>
#include <cmath>

// Tokens are shared among threads from this many logits on.
// arena: tune PARALLEL_FROM 0 4096 16384 262144
#define PARALLEL_FROM 16384

// Independent partial results, so that one operation need not wait for the last.
// arena: tune LANES 1 4 8 16
#define LANES 1

static float maximum(const float* x, int64_t n) {
    float best[LANES];
    std::fill(best, best + LANES, x[0]);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int lane = 0; lane < LANES; ++lane)
            best[lane] = x[i + lane] > best[lane] ? x[i + lane] : best[lane];
    for (; i < n; ++i) best[0] = std::max(best[0], x[i]);
    return *std::max_element(best, best + LANES);
}

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
        const float shift = maximum(logits, vocab);
        const double sum = sum_of_exponentials(logits, shift, vocab);
        args->out[token] = std::log(float(sum)) + (shift - logits[target]);
    }
    return 0;
}
