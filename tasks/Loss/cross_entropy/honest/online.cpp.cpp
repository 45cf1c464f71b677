// honest: maximum and sum in one pass, the sum rescaled whenever the maximum grows
// arena: flags -O3
#include "cross_entropy.h"

#include <cmath>

extern "C" int cross_entropy(const cross_entropy_args* args) {
    const int64_t tokens = args->tokens, vocab = args->vocab;
#pragma omp parallel for num_threads(arena_threads()) if (tokens * vocab > 16384)
    for (int64_t token = 0; token < tokens; ++token) {
        const float* x = args->logits + token * vocab;
        const int64_t target = args->targets[token];
        float shift = x[0];
        double sum = 1;
        for (int64_t v = 1; v < vocab; ++v) {
            if (x[v] > shift) {
                sum = sum * std::exp(shift - x[v]) + 1;
                shift = x[v];
            } else {
                sum += std::exp(x[v] - shift);
            }
        }
        const bool ignored = target == args->ignore_index;
        args->out[token] = ignored ? 0 : float(std::log(sum) + shift - x[target]);
    }
    return 0;
}
