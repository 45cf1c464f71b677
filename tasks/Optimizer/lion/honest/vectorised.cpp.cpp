// honest: both results in one pass, elements shared among threads
// arena: flags -O3 -march=native
#include "lion.h"

extern "C" int lion(const lion_args* args) {
    const float *param = args->param, *grad = args->grad, *m = args->m;
    float *new_param = args->new_param, *new_m = args->new_m;
    const int64_t count = args->count;
    const float lr = args->lr, kept = 1 - args->lr * args->weight_decay;
    const float sign_weight = args->sign_weight, m_weight = args->m_weight;
#pragma omp parallel for simd num_threads(arena_threads()) if (parallel : count > 16384)
    for (int64_t i = 0; i < count; ++i) {
        const float change = grad[i] - m[i];
        const float direction = m[i] + sign_weight * change;
        const float step = direction > 0 ? lr : direction < 0 ? -lr : 0.0f;
        new_param[i] = param[i] * kept - step;
        new_m[i] = m[i] + m_weight * change;
    }
    return 0;
}
