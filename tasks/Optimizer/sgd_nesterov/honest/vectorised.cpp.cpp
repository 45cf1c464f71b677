// honest: both results in one pass, elements shared among threads
// arena: flags -O3 -march=native
#include "sgd_nesterov.h"

extern "C" int sgd_nesterov(const sgd_nesterov_args* args) {
    const float *param = args->param, *grad = args->grad, *velocity = args->velocity;
    float *new_param = args->new_param, *new_velocity = args->new_velocity;
    const int64_t count = args->count;
    const float lr = args->lr, momentum = args->momentum, penalty = args->penalty;
#pragma omp parallel for simd num_threads(arena_threads()) if (parallel : count > 16384)
    for (int64_t i = 0; i < count; ++i) {
        const float g = grad[i] + penalty * param[i];
        const float v = momentum * velocity[i] + g;
        new_velocity[i] = v;
        new_param[i] = param[i] - lr * (g + momentum * v);
    }
    return 0;
}
