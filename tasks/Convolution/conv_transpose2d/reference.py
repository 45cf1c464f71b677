"""Transposed 2D convolution with a bias, which doubles the size of an image.

    out[b, f, p, q] = bias[f] + sum over c, i, j, u, v of x[b, c, i, j] * weight[c, f, u, v]
                      where p = i * stride + u - padding and q = j * stride + v - padding

Each input pixel adds a filter, times its value, to a window of the output; windows overlap where
the filter is larger than the stride. What falls outside the output is dropped. Products are
accumulated in float32 or better, and float32 operands are multiplied as IEEE float32, not TF32.
"""

import torch


def reference(x, weight, bias, stride, padding):
    return torch.nn.functional.conv_transpose2d(x, weight, bias, stride=stride, padding=padding)
