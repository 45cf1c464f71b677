// honest: a row of a window is one piece of a row of the image, or two where the image wraps round
// arena: flags -O3 -march=native
#include "window_partition.h"

#include <algorithm>

extern "C" int window_partition(const window_partition_args* args) {
    const int64_t window = args->window, shift = args->shift, channels = args->channels;
    const int64_t height = args->grid_rows * window, width = args->grid_cols * window;
    const int64_t windows = args->batch * args->grid_rows * args->grid_cols;
#pragma omp parallel for collapse(2) num_threads(arena_threads()) \
    if (windows * window * window * channels > 32768)
    for (int64_t index = 0; index < windows; ++index)
        for (int64_t i = 0; i < window; ++i) {
            const int64_t n = index / args->grid_cols / args->grid_rows;
            const int64_t r = index / args->grid_cols % args->grid_rows;
            const int64_t left = index % args->grid_cols * window + shift;
            const int64_t row = (r * window + i + shift) % height;
            const int64_t whole = std::min(window, width - left);
            const float* x = args->x + (n * height + row) * width * channels;
            float* out = args->out + (index * window + i) * window * channels;
            std::copy_n(x + left * channels, whole * channels, out);
            std::copy_n(x, (window - whole) * channels, out + whole * channels);
        }
    return 0;
}
