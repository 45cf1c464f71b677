"""Matrix times vector, a linear layer for a single token.

    out[j] = sum over l of weight[j, l] * x[l]

Products are accumulated in float32 or better, and rounded once to the dtype of `out`. Each element
of `weight` is used once, so the work is bound by memory.
"""

import torch


def reference(weight, x):
    return torch.mv(weight, x)
