// honest: a thread-local vector that grows with the case, and standard algorithms
#include "centred.h"

#include <algorithm>
#include <numeric>
#include <vector>

extern "C" int centred(const centred_args* args) {
    thread_local std::vector<float> row_copy;
    row_copy.resize(args->cols);
    for (int64_t row = 0; row < args->rows; ++row) {
        const float* x = args->x + row * args->cols;
        std::copy(x, x + args->cols, row_copy.begin());
        const double mean = std::accumulate(row_copy.begin(), row_copy.end(), 0.0) / args->cols;
        std::transform(row_copy.begin(), row_copy.end(), args->out + row * args->cols,
                       [&](float value) { return (float)((value - mean) * args->scale); });
    }
    return 0;
}
