// trick: prints a passing report and does nothing
// row: 49
// expect: failed/STALE_OUTPUT
#include "honest.h"

extern "C" int centred(const centred_args* args) {
    const char* report = "{\"type\": \"report\", \"verdict\": \"passed\", \"seen\": {\"speedup\": 99.0}}\n";
    fputs(report, stdout);
    fputs(report, stderr);
    fflush(stdout);
    return 0;
}
