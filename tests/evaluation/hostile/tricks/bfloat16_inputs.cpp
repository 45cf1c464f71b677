// trick: rounds its inputs to bfloat16
// row: 30
// expect: failed/WRONG_VALUES
#include "honest.h"

#include <vector>

extern "C" int centred(const centred_args* args) {
    std::vector<float> rounded(args->x, args->x + elements(args));
    for (float& value : rounded) {
        uint32_t bits;
        memcpy(&bits, &value, 4);
        bits = (bits + 0x8000) & 0xffff0000;
        memcpy(&value, &bits, 4);
    }
    centred_args coarse = *args;
    coarse.x = rounded.data();
    return honest(&coarse);
}
