// honest: every element on its own, summed in double
// arena: flags -O3
#include "matmul.h"

#include <vector>

extern "C" int matmul(const matmul_args* args) {
    const int64_t m = args->m, n = args->n, k = args->k;
    std::vector<double> sums(n);
    for (int64_t i = 0; i < m; ++i) {
        sums.assign(n, 0.0);
        for (int64_t l = 0; l < k; ++l)
            for (int64_t j = 0; j < n; ++j)
                sums[j] += double(args->a[i * k + l]) * args->b[l * n + j];
        for (int64_t j = 0; j < n; ++j) args->out[i * n + j] = float(sums[j]);
    }
    return 0;
}
