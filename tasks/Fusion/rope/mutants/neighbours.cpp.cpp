// mutant: pairs neighbours, not halves
// expect: WRONG_VALUES
#include "rope.h"

static void rotate(const float* x, float* out, const rope_args* args, int64_t heads) {
    const int64_t half = args->half_dim;
    for (int64_t pair = 0; pair < args->tokens * heads * half; ++pair) {
        const int64_t angle = pair / (heads * half) * half + pair % half;
        const float cos = args->cos[angle], sin = args->sin[angle];
        out[2 * pair] = x[2 * pair] * cos - x[2 * pair + 1] * sin;
        out[2 * pair + 1] = x[2 * pair + 1] * cos + x[2 * pair] * sin;
    }
}

extern "C" int rope(const rope_args* args) {
    rotate(args->q, args->q_out, args, args->heads);
    rotate(args->k, args->k_out, args, args->kv_heads);
    return 0;
}
