// honest: AVX2 by hand, with a scalar tail
// arena: flags -O3 -march=native
#include "centred.h"

#include <immintrin.h>

extern "C" int centred(const centred_args* args) {
    const int64_t cols = args->cols, whole = cols / 8 * 8;
    for (int64_t row = 0; row < args->rows; ++row) {
        const float* x = args->x + row * cols;
        float* out = args->out + row * cols;
        __m256 sums = _mm256_setzero_ps();
        for (int64_t col = 0; col < whole; col += 8) sums = _mm256_add_ps(sums, _mm256_loadu_ps(x + col));
        float lanes[8], sum = 0;
        _mm256_storeu_ps(lanes, sums);
        for (float lane : lanes) sum += lane;
        for (int64_t col = whole; col < cols; ++col) sum += x[col];
        const float mean = sum / cols;
        for (int64_t col = 0; col < whole; col += 8) {
            const __m256 centred = _mm256_sub_ps(_mm256_loadu_ps(x + col), _mm256_set1_ps(mean));
            _mm256_storeu_ps(out + col, _mm256_mul_ps(centred, _mm256_set1_ps(args->scale)));
        }
        for (int64_t col = whole; col < cols; ++col) out[col] = (x[col] - mean) * args->scale;
    }
    return 0;
}
