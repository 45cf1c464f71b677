"""Soft cap of logits, as in Gemma 2.

    out[r, c] = cap * tanh(x[r, c] / cap)

Compute in float32 or better, whatever the dtype of `x`, and round once to the dtype of `out`. Small
logits must keep their relative precision: there the result is nearly x. Large logits of either sign
occur and must not give NaN.
"""

import torch


def reference(x, cap):
    return (torch.tanh(x.float() / cap) * cap).to(x.dtype)
