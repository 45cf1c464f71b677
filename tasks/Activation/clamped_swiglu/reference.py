"""Clamped SwiGLU of interleaved gates and values, as in gpt-oss.

    gate  = min(x[r, 2 * c], limit)
    value = min(max(x[r, 2 * c + 1], -limit), limit)
    out[r, c] = (value + 1) * gate / (1 + exp(-alpha * gate))

Even columns of `x` are gates, odd ones values. Gates have no lower limit; values are clamped on
both sides. Compute in float32 or better, whatever the dtype of `x`, and round once to the dtype of
`out`. Gates of any size occur and must not give NaN.
"""

import torch


def reference(x, alpha, limit):
    wide = x.float()
    gate = wide[..., 0::2].clamp(max=limit)
    value = wide[..., 1::2].clamp(min=-limit, max=limit)
    return ((value + 1) * gate * torch.sigmoid(alpha * gate)).to(x.dtype)
