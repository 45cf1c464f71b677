"""Squared Euclidean distances of points to the codes of a codebook.

    out[p, c] = sum over d of (x[p, d] - codebook[c, d])^2

It may be computed as |x|^2 + |codebook|^2 - 2 x . codebook, the sums in float32 or better; results
are not clamped at 0. Operands are multiplied as IEEE float32, not TF32.
"""

import torch


def reference(x, codebook):
    norms = x.square().sum(dim=-1)[..., :, None] + codebook.square().sum(dim=-1)[..., None, :]
    return norms - 2 * torch.matmul(x, codebook.transpose(-1, -2))
