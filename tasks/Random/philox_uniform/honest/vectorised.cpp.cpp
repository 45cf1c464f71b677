// honest: four blocks in the lanes of a vector, through all rounds in registers
// arena: flags -O3 -march=native
#include "philox_uniform.h"

#include <algorithm>
#include <immintrin.h>

constexpr int64_t LANES = 4;

struct Keys {
    __m256i k0[10], k1[10];

    explicit Keys(const int64_t* key) {
        uint32_t first = uint32_t(key[0]), second = uint32_t(key[1]);
        for (int round = 0; round < 10; ++round, first += 0x9E3779B9, second += 0xBB67AE85) {
            k0[round] = _mm256_set1_epi64x(first);
            k1[round] = _mm256_set1_epi64x(second);
        }
    }
};

static void store(float* out, __m256i words) {
    const __m256 numbers = _mm256_cvtepi32_ps(_mm256_srli_epi32(words, 8));
    _mm256_storeu_ps(out, _mm256_mul_ps(numbers, _mm256_set1_ps(0x1p-24f)));
}

/* Fill four blocks. Words are the lower halves of 64 bits; what is in the upper ones is of no use. */
static void fill(int64_t n, const Keys& keys, float* out) {
    const __m256i by_c0 = _mm256_set1_epi64x(0xD2511F53), by_c2 = _mm256_set1_epi64x(0xCD9E8D57);
    __m256i c0 = _mm256_setr_epi64x(n, n + 1, n + 2, n + 3);
    __m256i c1 = _mm256_setzero_si256(), c2 = c1, c3 = c1;
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
        const __m256i p = _mm256_mul_epu32(c0, by_c0), q = _mm256_mul_epu32(c2, by_c2);
        c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(q, 32), c1), keys.k0[round]);
        c1 = q;
        c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p, 32), c3), keys.k1[round]);
        c3 = p;
    }
    const __m256i low = _mm256_blend_epi32(c0, _mm256_slli_epi64(c1, 32), 0xAA);
    const __m256i high = _mm256_blend_epi32(c2, _mm256_slli_epi64(c3, 32), 0xAA);
    const __m256i even = _mm256_unpacklo_epi64(low, high), odd = _mm256_unpackhi_epi64(low, high);
    store(out, _mm256_permute2x128_si256(even, odd, 0x20));
    store(out + 8, _mm256_permute2x128_si256(even, odd, 0x31));
}

extern "C" int philox_uniform(const philox_uniform_args* args) {
    const int64_t blocks = args->blocks, whole = blocks / LANES * LANES;
    const Keys keys(args->key);
#pragma omp parallel for num_threads(arena_threads()) if (blocks > 2048)
    for (int64_t n = 0; n < whole; n += LANES) fill(n, keys, args->out + 4 * n);
    if (whole < blocks) {
        float last[4 * LANES];
        fill(whole, keys, last);
        std::copy_n(last, 4 * (blocks - whole), args->out + 4 * whole);
    }
    return 0;
}
