"""Convolve every channel with its own filter, without a look ahead, and apply SiLU:

    y = bias[c] + sum over i of weight[c, i] * x[b, c, t + i - (taps - 1)]        i = 0 ... taps - 1
    out[b, c, t] = y / (1 + exp(-y))

Elements of `x` before t = 0 count as zero, so the last tap weighs the current element. Sums and
SiLU are float32 or better; y is not rounded to the dtype of `x`. Mamba and gated delta networks
mix neighbouring tokens so.
"""

import torch


def reference(x, weight, bias):
    taps, length = weight.shape[1], x.shape[2]
    padded = torch.nn.functional.pad(x.float(), (taps - 1, 0))
    weight = weight.float()
    y = bias.float()[:, None]
    for tap in range(taps):
        y = y + weight[:, tap, None] * padded[:, :, tap : tap + length]
    return torch.nn.functional.silu(y).to(x.dtype)
