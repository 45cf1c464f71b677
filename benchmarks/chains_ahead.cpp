// What a kernel on a CPU gains by computing sixteen launches side by side, where a launch is a chain of operations.
//
//     g++ -O3 -march=native -pthread benchmarks/chains_ahead.cpp -o PROGRAM && PROGRAM
//
// Each step of a chain waits for the one before, so no honest launch fills a vector. The first launch of a group computes
// all of it from copies of the inputs, with which each compares all of its own. Memory and turns are those of
// `launches_ahead.cpp`.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

enum { GUARD = 256, RING_BYTES = 64 << 20, GROUP = 16, LAUNCHES = 25 * GROUP, TURNS = 16, MAX_SLOTS = 8192 };

static float step(float held, float x) { return x / (1 + std::fabs(held)); }

__attribute__((noinline)) static void honest(const float* x, float* out, long steps) {
    float held = 0;
    for (long i = 0; i < steps; ++i) out[i] = held = step(held, x[i]);
}

struct Group {
    std::vector<float> copies, inputs, answers;
    explicit Group(long steps) : copies(GROUP * steps), inputs(GROUP * steps), answers(GROUP * steps) {}
};

__attribute__((noinline)) static void side_by_side(const float* const* x, float* const* out, long steps, Group& group) {
    for (long lane = 0; lane < GROUP; ++lane) {
        memcpy(&group.copies[lane * steps], x[lane], steps * sizeof(float));
        for (long i = 0; i < steps; ++i) group.inputs[i * GROUP + lane] = group.copies[lane * steps + i];
    }
    float held[GROUP] = {};
    for (long i = 0; i < steps; ++i)
        for (long lane = 0; lane < GROUP; ++lane)
            group.answers[i * GROUP + lane] = held[lane] = step(held[lane], group.inputs[i * GROUP + lane]);
    for (long lane = 0; lane < GROUP; ++lane) {
        if (memcmp(&group.copies[lane * steps], x[lane], steps * sizeof(float))) honest(x[lane], out[lane], steps);
        else
            for (long i = 0; i < steps; ++i) out[lane][i] = group.answers[i * GROUP + lane];
    }
}

static double now_ns() {
    timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1e9 + at.tv_nsec;
}

int main() {
    const long lengths[] = {32, 512, 4096};
    printf("{\n \"cases\": [\n");
    for (const long& steps : lengths) {
        const long stride = steps + 2 * GUARD, slots = std::min<long>(MAX_SLOTS, RING_BYTES / (stride * sizeof(float)));
        std::vector<float> inputs(stride * slots), outputs(stride * slots);
        std::vector<long> order(slots);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), std::mt19937(1));
        std::vector<const float*> x;
        std::vector<float*> out;
        for (long n = 0; n < LAUNCHES; ++n) {
            x.push_back(&inputs[order[n] * stride + GUARD]);
            out.push_back(&outputs[order[n] * stride + GUARD]);
        }
        Group group(steps);
        double least[2] = {1e18, 1e18};
        for (int turn = 0; turn < TURNS; ++turn)
            for (int way = 0; way < 2; ++way) {
                std::thread([&] {
                    for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = (float)(i * 7 % 101 + turn) / 50 - 1;
                    std::fill(outputs.begin(), outputs.end(), 0.0f);
                }).join();
                const double begun = now_ns();
                for (long n = 0; n < LAUNCHES; n += way ? GROUP : 1)
                    way ? side_by_side(&x[n], &out[n], steps, group) : honest(x[n], out[n], steps);
                least[way] = std::min(least[way], (now_ns() - begun) / LAUNCHES);
            }
        printf("  {\"steps\": %ld, \"honest_ns\": %.0f, \"side_by_side\": %.3f}%s\n", steps, least[0], least[1] / least[0],
               &steps == lengths + 2 ? "" : ",");
    }
    printf(" ]\n}\n");
}
