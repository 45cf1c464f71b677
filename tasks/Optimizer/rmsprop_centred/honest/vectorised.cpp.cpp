// honest: all four results in one pass, elements shared among threads
// arena: flags -O3 -march=native -fno-math-errno
#include "rmsprop_centred.h"

#include <cmath>

extern "C" int rmsprop_centred(const rmsprop_centred_args* args) {
    const float *param = args->param, *grad = args->grad, *velocity = args->velocity;
    const float *square = args->square, *average = args->average;
    float *new_param = args->new_param, *new_velocity = args->new_velocity;
    float *new_square = args->new_square, *new_average = args->new_average;
    const int64_t count = args->count;
    const float lr = args->lr, weight = args->weight, momentum = args->momentum, eps = args->eps;
#pragma omp parallel for simd num_threads(arena_threads()) if (parallel : count > 16384)
    for (int64_t i = 0; i < count; ++i) {
        const float g = grad[i];
        const float s = square[i] + weight * (g * g - square[i]);
        const float a = average[i] + weight * (g - average[i]);
        const float v = momentum * velocity[i] + g / (std::sqrt(s - a * a) + eps);
        new_square[i] = s;
        new_average[i] = a;
        new_velocity[i] = v;
        new_param[i] = param[i] - lr * v;
    }
    return 0;
}
