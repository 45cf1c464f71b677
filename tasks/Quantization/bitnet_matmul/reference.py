"""Multiply int8 activations by weights of -1, 0 and 1, four of them in a byte (BitNet b1.58):

    w[j, 4*b + s] = (packed[j, b] / 4^s, rounded down) mod 4 - 1                s = 0 ... 3
    out[i, j] = (sum over l of x[i, l] * w[j, l]) * x_scales[i] * scales[j]

The lowest two bits of a byte are its first weight. A field of two bits holds 0, 1 or 2, never 3.
Elements of `x` lie between -127 and 127. Sums may be exact, as in int32, or float32; they are
scaled in float32, and the result is rounded once to bfloat16. Decoding reads the packed weights
once, and that is nearly all the work.
"""

import torch


def reference(x, x_scales, packed, scales):
    fields = [(packed >> 2 * s) & 3 for s in range(4)]
    w = torch.stack(fields, dim=-1).flatten(1).float() - 1
    out = (x.float() @ w.T) * x_scales[:, None] * scales
    return out.to(torch.bfloat16)


def inputs(case, draw):
    m, n, count = case["m"], case["n"], case["bytes"]
    fields = draw.integers((n, count, 4), 0, 3) << torch.tensor([0, 2, 4, 6], device=draw.device)
    return {
        "x": draw.integers((m, 4 * count), -127, 128),
        "x_scales": draw.uniform((m,), 0.005, 0.05),
        "packed": fields.sum(dim=-1),
        "scales": draw.uniform((n,), 0.01, 0.1),
    }
