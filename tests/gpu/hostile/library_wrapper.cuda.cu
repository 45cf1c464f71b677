// trick: a library's product under the name of a kernel
// row: 42
// operator: product
// expect: failed/BUILD_ERROR
// triage: library-wrapper
#include "product.h"

#include <cublas_v2.h>

extern "C" int product(const product_args* args, cudaStream_t stream) {
    static cublasHandle_t handle = nullptr;
    if (!handle) cublasCreate(&handle);
    cublasSetStream(handle, stream);
    const float one = 1, zero = 0;
    const int rows = args->rows, inner = args->inner, cols = args->cols;
    return (int)cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, cols, rows, inner, &one, (const float*)args->weight,
                            cols, (const float*)args->x, inner, &zero, (float*)args->out, cols);
}
