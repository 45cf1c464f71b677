"""Apply a linear layer and its low-rank adapter (LoRA, Hu et al., 2021):

    z[r, j] = sum over i of x[r, i] * down[j, i]                              j = 0 ... rank - 1
    out[r, c] = sum over i of x[r, i] * weight[c, i] + scale * sum over j of z[r, j] * up[c, j]

Products are IEEE float32, not TF32, and summed in float32 or better. The weights must not be
changed: many adapters share one `weight`.
"""

import torch


def reference(x, weight, down, up, scale):
    base = torch.nn.functional.linear(x, weight).float()
    adapter = torch.nn.functional.linear(torch.nn.functional.linear(x, down), up).float()
    return (base + scale * adapter).to(x.dtype)
