"""Gradient of the weight of a linear layer.

    out[j, l] = sum over t of gradient[t, j] * x[t, l]

The sum runs over the first dimension of both inputs, the tokens, which can be long beside a small
result. Products are accumulated in float32 or better, and float32 operands are multiplied as IEEE
float32, not TF32.
"""

import torch


def reference(x, gradient):
    return torch.matmul(gradient.transpose(-1, -2), x)
