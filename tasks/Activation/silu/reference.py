"""SiLU, the sigmoid linear unit, also known as Swish (Elfwing et al., 2017).

    out[r, c] = x[r, c] / (1 + exp(-x[r, c]))

Compute in float32 or better, whatever the dtype of `x`, and round once to the dtype of `out`. A
row is a channel of an image. Large inputs of either sign occur and must not give NaN: far below
zero the result is zero.
"""

import torch


def reference(x):
    return torch.nn.functional.silu(x)
