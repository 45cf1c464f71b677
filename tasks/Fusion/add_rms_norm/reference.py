"""Add the residual stream to every row of `x`, and normalise the sum by its root mean square:

    residual_out[r, c] = x[r, c] + residual[r, c]
    out[r, c] = residual_out[r, c] / sqrt(mean(residual_out[r, :]^2) + eps) * weight[c]

The mean runs over the `cols` of a row. Sums, squares and the scaled result are float32 or better.
The norm takes the sum before `residual_out` is rounded to its dtype. This stands between all blocks
of Llama, Mistral and Qwen.
"""

import torch


def reference(x, residual, weight, eps):
    total = x.float() + residual.float()
    scale = torch.rsqrt(total.square().mean(dim=-1, keepdim=True) + eps)
    return (total * scale * weight.float()).to(x.dtype), total.to(x.dtype)
