"""Softmax over the last dimension."""

import torch


def reference(x):
    return torch.softmax(x, dim=-1)


def magnitude(x):
    # A rounding of x - max(x), or of either after scaling for a base-2 exponential, is an error of
    # the exponent and so a relative error of the result.
    return reference(x) * (1 + x.abs() + x.abs().amax(dim=-1, keepdim=True))


def reduction(case):
    return case["cols"]


def inputs(case, draw):
    return {"x": draw.normal((case["rows"], case["cols"]))}


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    elements = case["rows"] * case["cols"]
    return 2 * elements * item, 5 * elements
