// mutant: subtracts the mean first, as a layer norm does
// expect: WRONG_VALUES
#include "rms_norm.h"

#include <cmath>

extern "C" int rms_norm(const rms_norm_args* args) {
    for (int64_t row = 0; row < args->rows; ++row) {
        const float* x = args->x + row * args->cols;
        float* out = args->out + row * args->cols;
        float mean = 0, squares = 0;
        for (int64_t col = 0; col < args->cols; ++col) mean += x[col] / args->cols;
        for (int64_t col = 0; col < args->cols; ++col)
            squares += (x[col] - mean) * (x[col] - mean);
        const float scale = 1 / std::sqrt(squares / args->cols + args->eps);
        for (int64_t col = 0; col < args->cols; ++col)
            out[col] = (x[col] - mean) * scale * args->weight[col];
    }
    return 0;
}
