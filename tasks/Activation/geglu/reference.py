"""Gated GELU: one half of each row times the GELU of the other (Shazeer, 2020).

    value = x[r, c],  gate = x[r, hidden + c]
    out[r, c] = value * gate * (1 + erf(gate / sqrt(2))) / 2

`x` holds `2*hidden` columns a row: the values first, then the gates. The error function is meant,
not its approximation by tanh. Compute in float32 or better, whatever the dtype of `x`, and round
once to the dtype of `out`.
"""

import torch


def reference(x):
    value, gate = x.float().chunk(2, dim=-1)
    return (value * torch.nn.functional.gelu(gate)).to(x.dtype)
