"""SwiGLU (Shazeer, 2020): silu(gate) * up, gate and up being the halves of each row."""

import torch

# The smallest normal float32 over its unit roundoff: how much an overflowing exp(-gate) may lose.
_UNDERFLOW = 2.0 ** (-126 + 24)


def reference(x):
    gate, up = x.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * up


def magnitude(x):
    gate, up = x.abs().chunk(2, dim=-1)
    # A rounding of the gate is an error of the exponent and so a relative error of the result.
    return reference(x).abs() * (1 + gate) + gate * up * _UNDERFLOW


def reduction(case):
    return 1


def inputs(case, draw):
    return {"x": draw.normal((case["tokens"], 2 * case["hidden"]))}


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    elements = case["tokens"] * case["hidden"]
    return 3 * elements * item, 5 * elements
