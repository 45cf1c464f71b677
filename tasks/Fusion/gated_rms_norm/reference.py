"""Gate every element, and normalise each group of a row by its root mean square:

    y[r, g, c] = x[r, g, c] * gate[r, g, c] / (1 + exp(-gate[r, g, c]))
    out[r, g, c] = y[r, g, c] / sqrt(mean(y[r, g, :]^2) + eps) * weight[g, c]

The mean runs over the `cols` of a group. All arithmetic is float32 or better; y is not rounded to
the dtype of `x`. Gates of either sign and of any size occur. Mamba-2 (Dao and Gu, 2024) does this
before its output projection.
"""

import torch


def reference(x, gate, weight, eps):
    y = x.float() * torch.nn.functional.silu(gate.float())
    scale = torch.rsqrt(y.square().mean(dim=-1, keepdim=True) + eps)
    return (y * scale * weight.float()).to(x.dtype)
