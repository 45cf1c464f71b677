// What a processor does at most: bandwidth over working sets, and multiply-adds in registers.
//
//   peaks BYTES ...   prints GB/s for each working set of BYTES a thread, one a line, then TFLOP/s
//
// Bytes read and written both count. The best of many short trials is the peak, since whatever else
// the machine did can only have slowed the others.

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

using Clock = std::chrono::steady_clock;

constexpr int kTrials = 12;
constexpr long kTrialBytes = 32L << 20;

static volatile float sink;

// a[i] = b[i] + s * c[i]: three arrays, of which two are read and one is written.
__attribute__((noinline)) static void triad(float* a, const float* b, const float* c, long n) {
#pragma omp simd
    for (long i = 0; i < n; ++i) a[i] = b[i] + 0.5f * c[i];
}

__attribute__((noinline)) static void read(const float* a, long n) {
    float sums[128] = {};
    for (long i = 0; i + 128 <= n; i += 128)
#pragma omp simd
        for (int j = 0; j < 128; ++j) sums[j] += a[i + j];
    float sum = 0;
    for (const float part : sums) sum += part;
    sink = sum;
}

// The C library knows when stores are better sent past the caches.
__attribute__((noinline)) static void copy(float* a, const float* b, long n) {
    std::memcpy(a, b, n * sizeof(float));
}

// The shortest seconds that all threads together take for one `trial()` each.
template <typename Trial>
static double shortest(int trials, Trial trial) {
    double best = 1e30;
    for (int i = 0; i < trials; ++i) {
#pragma omp barrier
        const auto start = Clock::now();
        trial();
#pragma omp barrier
        best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
    }
    return best;
}

static double bandwidth(long bytes) {
    const long n = bytes / sizeof(float) / 6 * 6;
    const long rounds = 1 + kTrialBytes / bytes;
    double best = 0;
#pragma omp parallel
    {
        std::vector<float> memory(n, 1);
        float* a = memory.data();
        const double seconds = std::min({
            shortest(kTrials, [&] { for (long i = 0; i < rounds; ++i) read(a, n); }),
            shortest(kTrials, [&] {
                for (long i = 0; i < rounds; ++i) triad(a, a + n / 3, a + n / 3 * 2, n / 3);
            }),
            shortest(kTrials, [&] { for (long i = 0; i < rounds; ++i) copy(a, a + n / 2, n / 2); }),
        });
#pragma omp master
        best = 1e-9 * n * sizeof(float) * rounds * omp_get_num_threads() / seconds;
    }
    return best;
}

typedef float Vector4 __attribute__((vector_size(16)));
typedef float Vector8 __attribute__((vector_size(32)));
typedef float Vector16 __attribute__((vector_size(64)));

// Independent chains of multiply-adds, each in one register if vectors are no wider than those.
template <typename Vector>
static double tflops() {
    constexpr int kWidth = sizeof(Vector) / sizeof(float), kChains = 12;
    constexpr long kRounds = 500000;
    double best = 0;
#pragma omp parallel
    {
        const double seconds = shortest(2 * kTrials, [] {
            const Vector factor = Vector{} + 0.999f, term = Vector{} + 0.001f;
            Vector chains[kChains] = {};
            for (long i = 0; i < kRounds; ++i)
#pragma GCC unroll 12
                for (int j = 0; j < kChains; ++j) chains[j] = chains[j] * factor + term;
            Vector sum = chains[0];
            for (int j = 1; j < kChains; ++j) sum += chains[j];
            sink = sum[0];
        });
#pragma omp master
        best = 2e-12 * kWidth * kChains * kRounds * omp_get_num_threads() / seconds;
    }
    return best;
}

int main(int count, char** arguments) {
    for (int i = 1; i < count; ++i) std::printf("%.3f\n", bandwidth(std::atol(arguments[i])));
    // Vectors wider than the registers are split and spilled, narrower ones leave lanes idle.
    std::printf("%.6f\n", std::max({tflops<Vector4>(), tflops<Vector8>(), tflops<Vector16>()}));
}
