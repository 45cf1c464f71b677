// What a processor can do at most: triad bandwidth over working sets, and fused multiply-adds in registers.
//
//   peaks NAME:BYTES ...   prints {"NAME": GB/s, ..., "tflops": TFLOP/s}; BYTES is the working set of each thread's
//   share, for a name other than L1 and L2 of all threads together. The best of several trials counts.

#include <omp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

using Clock = std::chrono::steady_clock;

static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// a[i] = b[i] + s * c[i]: three arrays, of which two are read and one is written.
__attribute__((noinline)) static void triad(float* a, const float* b, const float* c, float s, long n) {
#pragma omp simd
    for (long i = 0; i < n; ++i) a[i] = b[i] + s * c[i];
}

__attribute__((noinline)) static float read_only(const float* a, long n) {
    float sums[64] = {};
    for (long i = 0; i + 64 <= n; i += 64)
#pragma omp simd
        for (int j = 0; j < 64; ++j) sums[j] += a[i + j];
    float sum = 0;
    for (float part : sums) sum += part;
    return sum;
}

static volatile float sink;

static double bandwidth(long bytes, bool per_thread) {
    const int threads = omp_get_max_threads();
    const long n = (per_thread ? bytes : bytes / threads) / 3 / sizeof(float);
    double best = 0;
#pragma omp parallel
    {
        std::vector<float> a(n, 1), b(n, 2), c(n, 3), all(3 * n, 1);
        const long rounds = 1 + (64L << 20) / (n * 12);
        for (int trial = 0; trial < 8; ++trial) {
            for (int reading = 0; reading < 2; ++reading) {
#pragma omp barrier
                const auto start = Clock::now();
                float sum = 0;
                for (long round = 0; round < rounds; ++round) {
                    if (reading) sum += read_only(all.data(), 3 * n);
                    else triad(a.data(), b.data(), c.data(), 0.5f, n);
                }
                sink = sum;
#pragma omp barrier
                const double rate = 12.0 * n * rounds * threads / seconds_since(start) / 1e9;
#pragma omp critical
                if (rate > best) best = rate;
            }
        }
        sink = a[n / 2];
    }
    return best;
}

static double tflops() {
    constexpr int kWidth = 16, kChains = 12;
    constexpr long kRounds = 4000000;
    typedef float Vector __attribute__((vector_size(kWidth * sizeof(float))));
    double best = 0;
    for (int trial = 0; trial < 5; ++trial) {
        const auto start = Clock::now();
#pragma omp parallel
        {
            Vector chains[kChains], factor, term;
            for (int j = 0; j < kWidth; ++j) factor[j] = 0.999f, term[j] = 0.001f;
            for (auto& chain : chains) chain = term;
            for (long i = 0; i < kRounds; ++i)
#pragma GCC unroll 12
                for (int j = 0; j < kChains; ++j) chains[j] = chains[j] * factor + term;
            Vector sum = chains[0];
            for (int j = 1; j < kChains; ++j) sum += chains[j];
            sink = sum[0];
        }
        const double operations = 2.0 * kWidth * kChains * kRounds * omp_get_max_threads();
        const double rate = operations / seconds_since(start) / 1e12;
        if (rate > best) best = rate;
    }
    return best;
}

int main(int count, char** arguments) {
    std::printf("{");
    for (int i = 1; i < count; ++i) {
        const char* colon = std::strchr(arguments[i], ':');
        const int length = static_cast<int>(colon - arguments[i]);
        const bool per_thread = length == 2 && (arguments[i][1] == '1' || arguments[i][1] == '2');
        std::printf("\"%.*s\": %.3f, ", length, arguments[i], bandwidth(std::atol(colon + 1), per_thread));
    }
    std::printf("\"tflops\": %.6f}\n", tflops());
}
