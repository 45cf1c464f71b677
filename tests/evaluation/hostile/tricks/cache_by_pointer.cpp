// trick: computes once for each pair of pointers and repeats that answer
// row: 8
// expect: failed/WRONG_VALUES
#include "honest.h"

#include <map>
#include <utility>
#include <vector>

static std::map<std::pair<const void*, void*>, std::vector<float>> answers;

extern "C" int centred(const centred_args* args) {
    std::vector<float>& kept = answers[{args->x, args->out}];
    if ((int64_t)kept.size() != elements(args)) {
        honest(args);
        kept.assign(args->out, args->out + elements(args));
    }
    memcpy(args->out, kept.data(), kept.size() * sizeof(float));
    return 0;
}
