"""Product of a lower triangular matrix and a matrix, for each batch entry.

    out[i, r, c] = sum over j <= r of a[i, r, j] * b[i, j, c]

The diagonal belongs to the triangle. Elements above it must not matter, whatever they are. Products
are accumulated in float32 or better, and float32 operands are multiplied as IEEE float32, not TF32.
"""

import torch


def reference(a, b):
    return torch.matmul(torch.tril(a), b)


def cost(case):
    """Return the bytes and operations of the lower triangle."""
    item = 4 if case.dtype == "float32" else 2
    batch, n, cols = case["batch"], case["n"], case["cols"]
    triangle = n * (n + 1) // 2
    return batch * (triangle + 2 * n * cols) * item, 2 * batch * triangle * cols
