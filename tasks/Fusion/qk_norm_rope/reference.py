"""Normalise every head of `q` and `k`, and rotate it by the angle of its position.

A head x of `2*half_dim` elements is first divided by its root mean square and scaled:

    y[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]

`q_weight` is for heads of `q`, `k_weight` for those of `k`. With d = half_dim, then

    out[i]     = y[i] * cos[t, i] - y[d + i] * sin[t, i]
    out[d + i] = y[d + i] * cos[t, i] + y[i] * sin[t, i]        i = 0 ... d - 1

for every token t. All heads of a token share the angles. `cos` and `sin` are float32 tables and
need not satisfy cos^2 + sin^2 = 1. All arithmetic is float32 or better; y is not rounded to the
dtype of `q`. Qwen3 and Gemma 3 do this before attention.
"""

import torch


def reference(q, k, q_weight, k_weight, cos, sin, eps):
    return _head(q, q_weight, cos, sin, eps), _head(k, k_weight, cos, sin, eps)


def _head(x, weight, cos, sin, eps):
    wide = x.float()
    y = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps) * weight.float()
    first, second = y.chunk(2, dim=-1)
    cos, sin = cos[:, None, :], sin[:, None, :]
    rotated = (first * cos - second * sin, second * cos + first * sin)
    return torch.cat(rotated, dim=-1).to(x.dtype)
