"""Multiply float8 matrices whose scales belong to blocks of 128, as DeepSeek-V3 does:

    p[b] = sum over l in block b of x[i, l] * weight[j, l]
    out[i, j] = sum over b of p[b] * x_scales[i, b] * scales[j / 128, b]

Block b of the inner dimension holds the elements 128*b to 128*b + 127. `x` has a scale for each
row and block, `weight` one for each square of 128 x 128; the quotient is rounded down. Both are
e4m3. Products of two elements are exact in float32, and sums, scales and their products are
float32 or better. The result is rounded once to bfloat16.
"""

import torch


def reference(x, x_scales, weight, scales):
    wide = x.float().unflatten(1, (-1, 128)) * x_scales[..., None]
    blocks = weight.float().unflatten(1, (-1, 128)).unflatten(0, (-1, 128))
    scaled = (blocks * scales[:, None, :, None]).flatten(2).flatten(0, 1)
    return (wide.flatten(1) @ scaled.T).to(torch.bfloat16)
