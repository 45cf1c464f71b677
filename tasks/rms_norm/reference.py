"""RMS norm: each row divided by its root mean square, then scaled per column (Zhang, Sennrich 2019)."""

import torch


def reference(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight


def magnitude(x, weight, eps):
    # Squares do not cancel: the result is as exact, relatively, as its sum of squares.
    return reference(x, weight, eps).abs()


def reduction(case):
    return case["cols"]


def inputs(case, draw):
    return {
        "x": draw.normal((case["rows"], case["cols"])),
        "weight": draw.uniform((case["cols"],), 0.5, 1.5),
    }


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    rows, cols = case["rows"], case["cols"]
    return (2 * rows * cols + cols) * item, 4 * rows * cols
