"""Convolution with filters of one pixel, and a bias: a product over the channels of every pixel.

    out[b, f, i, j] = bias[f] + sum over c of weight[f, c] * x[b, c, i, j]

Products are accumulated in float32 or better, and float32 operands are multiplied as IEEE float32,
not TF32. The whole sum is rounded once to the dtype of `out`.
"""

import torch


def reference(x, weight, bias):
    return torch.nn.functional.conv2d(x, weight[:, :, None, None], bias)
