"""Sinusoidal embedding of time steps, as in diffusion models (Ho et al., 2020).

    angle = t[b] * exp(-log(max_period) * i / half),  i = 0, ..., half - 1
    out[b, i] = cos(angle),  out[b, half + i] = sin(angle)

The cosines come first. `t` lies between 0 and 1000, with a fraction. Compute in float32 or better.
Angles reach 1000, where fast approximations of sine and cosine fail.
"""

import math

import torch


def reference(t, half, max_period):
    steps = torch.arange(half, dtype=torch.float32, device=t.device)
    angle = t[..., None] * torch.exp(steps * (-math.log(max_period) / half))
    return torch.cat((torch.cos(angle), torch.sin(angle)), dim=-1)
