"""Weight demodulation of StyleGAN 2 (Karras et al., 2020): filters scaled by a style, to unit size.

    w = weight[f, c, u] * style[b, c]
    out[b, f, c, u] = w / sqrt(sum over c, u of w^2 + eps)

Each image has its own filters. Compute in float32 or better, whatever the dtype of the inputs, and
round once to the dtype of `out`. In float16 the squares would overflow.
"""

import torch


def reference(weight, style, eps):
    w = weight.float() * style.float()[..., None, :, None]
    return (w * torch.rsqrt(w.square().sum(dim=(-2, -1), keepdim=True) + eps)).to(weight.dtype)
