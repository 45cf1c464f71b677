// Y = A X, with A sparse in CSR form and X, Y dense and row-major.
#pragma once

struct Csr {
    int rows;
    const int* starts;     // rows + 1 positions in `columns` and `values`
    const int* columns;    // of each stored value, in [0, rows of X)
    const float* values;
};

// x has `width` columns; y has a.rows rows of `width` columns, and is overwritten.
void sparse_product(const Csr& a, const float* x, int width, float* y);
