"""Matrix multiplication: out = a @ b."""

import torch


def reference(a, b):
    return torch.matmul(a, b)


def magnitude(a, b):
    return torch.matmul(a.abs(), b.abs())


def reduction(case):
    return case["k"]


def inputs(case, draw):
    m, n, k = case["m"], case["n"], case["k"]
    # About 1 / sqrt(k), so that results keep the scale of `a`; a power of two, so that integers and
    # their sums stay exact.
    scale = 2.0 ** -(k.bit_length() // 2)
    return {"a": draw.normal((m, k)), "b": draw.normal((k, n), scale)}


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    m, n, k = case["m"], case["n"], case["k"]
    return (m * k + k * n + m * n) * item, 2 * m * n * k
