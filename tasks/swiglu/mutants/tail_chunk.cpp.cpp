// mutant: computes whole chunks of sixty-four columns only
// expect: STALE_OUTPUT
// arena: flags -O2
#include "swiglu.h"

#include <algorithm>
#include <cmath>

// Columns of a row that a thread takes at a time.
#define CHUNK 1024

// Chunks are shared among threads from this many elements on.
#define PARALLEL_FROM 16384

extern "C" int swiglu(const swiglu_args* args) {
    const int64_t tokens = args->tokens, hidden = args->hidden;

#pragma omp parallel for collapse(2) num_threads(arena_threads()) if (tokens * hidden >= PARALLEL_FROM)
    for (int64_t token = 0; token < tokens; ++token) {
        for (int64_t first = 0; first < hidden; first += CHUNK) {
            const float* gate = args->x + token * 2 * hidden;
            const float* up = gate + hidden;
            float* out = args->out + token * hidden;
            for (int64_t h = first; h < std::min<int64_t>(first + CHUNK, hidden / 64 * 64); ++h)
                out[h] = gate[h] / (1 + std::exp(-gate[h])) * up[h];
        }
    }
    return 0;
}
