"""Solve a lower triangular system with a unit diagonal for every matrix of a batch:

    x[n, i, :] = b[n, i, :] - sum over j < i of a[n, i, j] * x[n, j, :]

Only the elements of `a` below the diagonal count. The diagonal and what is above it hold other
numbers, which must not be used: the diagonal counts as one. Products are float32 and summed in
float32 or better. Row i needs all rows before it; delta-rule attention solves such a system for
every chunk of tokens.
"""

import torch


def reference(a, b):
    return torch.linalg.solve_triangular(a, b, upper=False, unitriangular=True)


def cost(case):
    batch, size, cols = case["batch"], case["size"], case["cols"]
    moved = 4 * batch * (size * (size - 1) // 2 + 2 * size * cols)
    return moved, batch * size * (size - 1) * cols
