// honest: rows of the input are stretched once and kept, those of the output are blends of two
// arena: flags -O3 -march=native
#include "bilinear_resize.h"

#include <algorithm>
#include <vector>

/* For each place of the output the two places of the input beside it, and the second one's share. */
struct Axis {
    std::vector<int32_t> first, second;
    std::vector<float> share;

    Axis(int64_t size, int64_t out_size) : first(out_size), second(out_size), share(out_size) {
        for (int64_t i = 0; i < out_size; ++i) {
            const double at = std::max(0.0, (double(i) + 0.5) * double(size) / double(out_size) - 0.5);
            first[i] = int32_t(at);
            second[i] = std::min(first[i] + 1, int32_t(size) - 1);
            share[i] = float(at - first[i]);
        }
    }
};

static void stretch(const float* row, const Axis& axis, float* out, int64_t count) {
    const int32_t *first = axis.first.data(), *second = axis.second.data();
    const float* share = axis.share.data();
#pragma omp simd
    for (int64_t j = 0; j < count; ++j)
        out[j] = (1 - share[j]) * row[first[j]] + share[j] * row[second[j]];
}

extern "C" int bilinear_resize(const bilinear_resize_args* args) {
    const int64_t height = args->height, out_height = args->out_height, count = args->out_width;
    const int64_t rows = args->planes * out_height;
    const Axis down(height, out_height), across(args->width, count);
#pragma omp parallel num_threads(arena_threads()) if (rows * count > 16384)
    {
        std::vector<float> buffers(2 * count);
        int64_t held[2] = {-1, -1};
        // Two neighbouring rows are kept: an even one and an odd one.
        const auto stretched = [&](int64_t row) {
            float* buffer = buffers.data() + row % 2 * count;
            if (held[row % 2] != row) stretch(args->x + row * args->width, across, buffer, count);
            held[row % 2] = row;
            return buffer;
        };
#pragma omp for
        for (int64_t row = 0; row < rows; ++row) {
            const int64_t i = row % out_height, plane = row / out_height;
            const float* top = stretched(plane * height + down.first[i]);
            const float* bottom = stretched(plane * height + down.second[i]);
            const float share = down.share[i];
            float* out = args->out + row * count;
#pragma omp simd
            for (int64_t j = 0; j < count; ++j) out[j] = (1 - share) * top[j] + share * bottom[j];
        }
    }
    return 0;
}
