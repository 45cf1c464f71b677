// honest: eight bytes at a time, their halves woven together and widened in vectors
// arena: flags -O3 -march=native
#include "dequantize_int4.h"

#include <immintrin.h>

constexpr int64_t BYTES = 8;

/* Store eight weights of a group, which are the lower bytes of a vector. */
static void store(float* out, __m128i weights, __m256i zero, __m256 scale) {
    const __m256i wide = _mm256_sub_epi32(_mm256_cvtepu8_epi32(weights), zero);
    _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_cvtepi32_ps(wide), scale));
}

extern "C" int dequantize_int4(const dequantize_int4_args* args) {
    const int64_t half = args->half_group, groups = args->rows * args->groups;
    if (half % BYTES) return 1;
    const __m128i mask = _mm_set1_epi8(15);
#pragma omp parallel for num_threads(arena_threads()) if (groups * half > 16384)
    for (int64_t group = 0; group < groups; ++group) {
        const __m256i zero = _mm256_set1_epi32(args->zeros[group]);
        const __m256 scale = _mm256_set1_ps(args->scales[group]);
        for (int64_t i = group * half; i < (group + 1) * half; i += BYTES) {
            const __m128i packed = _mm_loadl_epi64((const __m128i*)(args->packed + i));
            const __m128i even = _mm_and_si128(packed, mask);
            const __m128i odd = _mm_and_si128(_mm_srli_epi16(packed, 4), mask);
            const __m128i weights = _mm_unpacklo_epi8(even, odd);
            store(args->out + 2 * i, weights, zero, scale);
            store(args->out + 2 * i + 8, _mm_srli_si128(weights, 8), zero, scale);
        }
    }
    return 0;
}
