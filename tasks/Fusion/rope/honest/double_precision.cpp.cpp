// honest: products in double, plain loops
#include "rope.h"

static void rotate(const float* x, float* out, const rope_args* args, int64_t heads) {
    const int64_t half = args->half_dim;
    for (int64_t t = 0; t < args->tokens; ++t)
        for (int64_t head = 0; head < heads; ++head, x += 2 * half, out += 2 * half)
            for (int64_t i = 0; i < half; ++i) {
                const double cos = args->cos[t * half + i], sin = args->sin[t * half + i];
                out[i] = float(x[i] * cos - x[half + i] * sin);
                out[half + i] = float(x[half + i] * cos + x[i] * sin);
            }
}

extern "C" int rope(const rope_args* args) {
    rotate(args->q, args->q_out, args, args->heads);
    rotate(args->k, args->k_out, args, args->kv_heads);
    return 0;
}
