"""Triangle multiplication with outgoing edges (AlphaFold 2, Jumper et al., 2021).

    out[i, j, c] = sum over k of a[i, k, c] * b[j, k, c]

It is one matrix product for each channel, with channels last in all three tensors. Products are
accumulated in float32 or better, and float32 operands are multiplied as IEEE float32, not TF32.
"""

import torch


def reference(a, b):
    return torch.einsum("ikc,jkc->ijc", a, b).contiguous()
