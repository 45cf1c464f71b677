"""Elementwise product of complex numbers, the filter step of a convolution by FFT.

    out[b, c, k] = x[b, c, k] * weight[c, k]

A complex number is a pair along the last dimension: the real part, then the imaginary part. All
entries of the batch share the filter. Multiply and add in float32 or better, whatever the dtype of
the inputs, and round once to the dtype of `out`.
"""

import torch


def reference(x, weight):
    (a, b), (c, d) = x.float().unbind(-1), weight.float().unbind(-1)
    return torch.stack((a * c - b * d, a * d + b * c), dim=-1).to(x.dtype)
