"""Unpack weights in 4-bit NormalFloat whose scales are quantised as well (QLoRA, Dettmers et al.,
2023).

A byte holds two codes, the upper half first. With c[i] the i-th of the 64 codes of block n, and
the 16 levels of NF4 as listed in `LEVELS`,

    scale = absmax[n] * absmax_scale[n / 256] + offset[0]            (the quotient is rounded down)
    out[n, i] = LEVELS[c[i]] * scale

`absmax` is one unsigned byte for each block; 256 blocks share an `absmax_scale`. Levels, the scale
and the product are float32 or better, and the result is rounded once to bfloat16.

LEVELS = -1, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0,
0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.
"""

import torch

LEVELS = (-1.0, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0.0)
LEVELS += (0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0)


def reference(packed, absmax, absmax_scale, offset):
    codes = torch.stack((packed >> 4, packed & 15), dim=-1).flatten(1)
    levels = torch.tensor(LEVELS, device=packed.device, dtype=offset.dtype)
    outer = torch.arange(packed.shape[0], device=packed.device) // 256
    scale = absmax.float() * absmax_scale[outer] + offset
    return (levels[codes.long()] * scale[:, None]).to(torch.bfloat16)
