"""Transposed 1D convolution with a bias, the upsampling of a vocoder.

    out[b, f, p] = bias[f] + sum over c, t, u of x[b, c, t] * weight[c, f, u]
                   where p = t * stride + u - stride // 2

Filters have `2 * stride` taps, so two of them overlap at each output. What falls outside the output
is dropped. Products are accumulated in float32 or better, and float32 operands are multiplied as
IEEE float32, not TF32.
"""

import torch


def reference(x, weight, bias, stride):
    return torch.nn.functional.conv_transpose1d(x, weight, bias, stride=stride, padding=stride // 2)
