"""Gram matrix of the rows of a matrix.

    out[i, j] = sum over l of x[i, l] * x[j, l]

The result is symmetric, so half of the products are enough; both halves of `out` are written.
Products are accumulated in float32 or better, and float32 operands are multiplied as IEEE float32,
not TF32.
"""

import torch


def reference(x):
    return torch.matmul(x, x.transpose(-1, -2))


def cost(case):
    """Return the bytes and operations where each pair of rows is multiplied once."""
    item = 4 if case.dtype == "float32" else 2
    m, k = case["m"], case["k"]
    return (m * k + m * m) * item, m * (m + 1) * k
