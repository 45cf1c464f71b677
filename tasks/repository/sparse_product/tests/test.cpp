// Compares the product with a plain sum in double, within the roundings of a float sum.
#include <cmath>
#include <cstdio>

#include "random_matrix.h"

static bool agrees(int rows, int inner, int degree, int width, std::mt19937& random) {
    const Matrix a(rows, inner, degree, random);
    const std::vector<float> x = dense(std::size_t(inner) * width, random);
    std::vector<float> y(std::size_t(rows) * width, NAN);
    sparse_product(a.csr(), x.data(), width, y.data());
    for (int row = 0; row < rows; ++row)
        for (int column = 0; column < width; ++column) {
            double sum = 0, size = 0;
            for (int at = a.starts[row]; at < a.starts[row + 1]; ++at) {
                const double term = double(a.values[at]) * x[a.columns[at] * width + column];
                sum += term;
                size += std::fabs(term);
            }
            const double found = y[std::size_t(row) * width + column];
            if (!(std::fabs(found - sum) <= 1e-5 * size)) {
                std::printf("%d x %d, row %d, column %d: %g instead of %g\n", rows, width, row,
                            column, found, sum);
                return false;
            }
        }
    return true;
}

int main() {
    std::mt19937 random(seed());
    const int sizes[][4] = {  // rows, rows of X, stored values in a row, columns of X
        {1, 1, 1, 1},    {7, 5, 3, 1},    {64, 64, 8, 3},    {100, 30, 4, 8},
        {33, 1000, 20, 17}, {500, 500, 6, 32}, {257, 129, 12, 33}, {1000, 400, 5, 64},
    };
    for (const auto& size : sizes)
        if (!agrees(size[0], size[1], size[2], size[3], random)) return 1;
    std::printf("%zu sizes agree\n", sizeof(sizes) / sizeof(*sizes));
    return 0;
}
