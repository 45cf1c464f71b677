"""RMS norm (Zhang and Sennrich, 2019): rows over their root mean square, scaled per column."""

import torch


def reference(x, weight, eps):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    return (wide * scale * weight).to(x.dtype)


def magnitude(x, weight, eps):
    # Squares do not cancel: the result is as exact, relatively, as their sum.
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
