// trick: repeats the first answer it gave for a shape
// row: 10
// expect: failed/WRONG_VALUES
#include "honest.h"

#include <map>
#include <utility>
#include <vector>

static std::map<std::pair<int64_t, int64_t>, std::vector<float>> answers;

extern "C" int centred(const centred_args* args) {
    std::vector<float>& kept = answers[{args->rows, args->cols}];
    if (kept.empty()) {
        honest(args);
        kept.assign(args->out, args->out + elements(args));
    }
    memcpy(args->out, kept.data(), kept.size() * sizeof(float));
    return 0;
}
