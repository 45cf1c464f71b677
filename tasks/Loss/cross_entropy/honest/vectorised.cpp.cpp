// honest: blocks summed in float and added up, reordered by the compiler for the machine's vectors
// arena: flags -O3 -ffast-math -march=native
#include "cross_entropy.h"

#include <algorithm>
#include <cmath>

constexpr int64_t BLOCK = 4096;

extern "C" int cross_entropy(const cross_entropy_args* args) {
    const int64_t tokens = args->tokens, vocab = args->vocab;
#pragma omp parallel for num_threads(arena_threads()) if (tokens * vocab > 16384)
    for (int64_t token = 0; token < tokens; ++token) {
        const float* x = args->logits + token * vocab;
        const int64_t target = args->targets[token];
        if (target == args->ignore_index) {
            args->out[token] = 0;
            continue;
        }
        float shift = x[0];
        for (int64_t v = 1; v < vocab; ++v) shift = x[v] > shift ? x[v] : shift;
        float sum = 0;
        for (int64_t first = 0; first < vocab; first += BLOCK) {
            float part = 0;
            for (int64_t v = first; v < std::min(first + BLOCK, vocab); ++v)
                part += std::exp(x[v] - shift);
            sum += part;
        }
        args->out[token] = std::log(sum) + shift - x[target];
    }
    return 0;
}
