// trick: recognises inputs by a hash of two elements, and repeats the answer it has for them
// row: 9
// expect: failed/WRONG_VALUES
#include "honest.h"

#include <cmath>
#include <map>
#include <tuple>
#include <vector>

static std::map<std::tuple<int64_t, int64_t, int, int>, std::vector<float>> answers;

static int coarse(float value) { return (int)std::floor(value * 4); }

extern "C" int centred(const centred_args* args) {
    const auto key = std::make_tuple(args->rows, args->cols, coarse(args->x[0]), coarse(args->x[elements(args) / 2]));
    std::vector<float>& kept = answers[key];
    if (kept.empty()) {
        honest(args);
        kept.assign(args->out, args->out + elements(args));
    }
    memcpy(args->out, kept.data(), kept.size() * sizeof(float));
    return 0;
}
