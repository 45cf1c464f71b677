// honest: a row of the output at a time, interleaved from as many rows of the input as the factor
// arena: flags -O3 -march=native
#include "pixel_shuffle.h"

template <int FACTOR>
static int shuffle(const pixel_shuffle_args* args) {
    const int64_t height = args->height, width = args->width, plane = height * width;
    const int64_t rows = args->batch * args->channels * height * FACTOR;
#pragma omp parallel for num_threads(arena_threads()) if (rows * width * FACTOR > 32768)
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t i = row % FACTOR, h = row / FACTOR % height, channel = row / FACTOR / height;
        const float* x = args->x + (channel * FACTOR + i) * FACTOR * plane + h * width;
        float* out = args->out + row * width * FACTOR;
#pragma omp simd
        for (int64_t w = 0; w < width; ++w)
#pragma GCC unroll 8
            for (int j = 0; j < FACTOR; ++j) out[w * FACTOR + j] = x[j * plane + w];
    }
    return 0;
}

extern "C" int pixel_shuffle(const pixel_shuffle_args* args) {
    switch (args->factor) {
        case 2: return shuffle<2>(args);
        case 3: return shuffle<3>(args);
        case 4: return shuffle<4>(args);
        case 8: return shuffle<8>(args);
        default: return 1;
    }
}
