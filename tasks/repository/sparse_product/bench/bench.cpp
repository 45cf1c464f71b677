// Times the product, and prints one JSON line: the nonce, and microseconds of a call for each case.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "random_matrix.h"

static double microseconds(int rows, int degree, int width, std::mt19937& random) {
    using Clock = std::chrono::steady_clock;
    const Matrix a(rows, rows, degree, random);
    const std::vector<float> x = dense(std::size_t(rows) * width, random);
    std::vector<float> y(std::size_t(rows) * width);
    std::vector<double> times;
    const auto end = Clock::now() + std::chrono::milliseconds(150);
    while (times.size() < 5 || Clock::now() < end) {
        const auto started = Clock::now();
        sparse_product(a.csr(), x.data(), width, y.data());
        times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - started).count());
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
}

int main() {
    std::mt19937 random(seed());
    const char* nonce = std::getenv("ARENA_NONCE");
    const double narrow = microseconds(20000, 8, 8, random);
    const double wide = microseconds(8000, 16, 32, random);
    const double odd = microseconds(5000, 12, 19, random);
    std::printf("{\"nonce\": \"%s\", \"times_us\": {\"narrow\": %.3f, \"wide\": %.3f, \"odd\": %.3f}}\n",
                nonce ? nonce : "", narrow, wide, odd);
    return 0;
}
