// SwiGLU, row by row: silu(gate) * up with the exponential of the C library.
// arena: tune-flags "-O2" "-O3" "-O3 -march=native" "-O3 -ffast-math" "-O3 -ffast-math -march=native" "-O3 -ffast-math -march=native -mprefer-vector-width=512"
// arena: flags -O2
#include "swiglu.h"

#include <algorithm>
#include <cmath>

// Columns of a row that a thread takes at a time.
// arena: tune CHUNK 256 1024 4096 16384
#define CHUNK 1024

// Chunks are shared among threads from this many elements on.
// arena: tune PARALLEL_FROM 0 4096 16384 262144
#define PARALLEL_FROM 16384

extern "C" int swiglu(const swiglu_args* args) {
    const int64_t tokens = args->tokens, hidden = args->hidden;

#pragma omp parallel for collapse(2) num_threads(arena_threads()) if (tokens * hidden >= PARALLEL_FROM)
    for (int64_t token = 0; token < tokens; ++token) {
        for (int64_t first = 0; first < hidden; first += CHUNK) {
            const float* gate = args->x + token * 2 * hidden;
            const float* up = gate + hidden;
            float* out = args->out + token * hidden;
            for (int64_t h = first; h < std::min<int64_t>(first + CHUNK, hidden); ++h)
                out[h] = gate[h] / (1 + std::exp(-gate[h])) * up[h];
        }
    }
    return 0;
}
