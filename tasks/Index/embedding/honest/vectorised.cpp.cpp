// honest: whole rows copied, tokens shared among threads
// arena: flags -O3 -march=native
#include "embedding.h"

#include <cstring>

extern "C" int embedding(const embedding_args* args) {
    const int64_t tokens = args->tokens, cols = args->cols;
#pragma omp parallel for num_threads(arena_threads()) if (tokens * cols > 16384)
    for (int64_t t = 0; t < tokens; ++t) {
        const float* row = args->table + args->ids[t] * cols;
        std::memcpy(args->out + t * cols, row, cols * sizeof(float));
    }
    return 0;
}
