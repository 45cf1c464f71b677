// One column of the result after the other.
#include "sparse_product.h"

void sparse_product(const Csr& a, const float* x, int width, float* y) {
    for (int column = 0; column < width; ++column)
        for (int row = 0; row < a.rows; ++row) {
            float sum = 0;
            for (int at = a.starts[row]; at < a.starts[row + 1]; ++at)
                sum += a.values[at] * x[a.columns[at] * width + column];
            y[row * width + column] = sum;
        }
}
