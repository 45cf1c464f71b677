"""Decay and step size of a gated delta rule (Yang et al., 2024), as in Qwen3-Next.

    decay[t, h] = -exp(a_log[h]) * log(1 + exp(a[t, h] + dt_bias[h]))
    beta[t, h] = 1 / (1 + exp(-b[t, h]))

`a_log` and `dt_bias` are float32. `decay` is float32 and is the logarithm of a factor; `beta` has
the dtype of `b`. Compute in float32 or better. Biases lie from -7 to -2, so most decays are small,
and their relative precision counts: use `log1p`. Large sums occur and must not overflow.
"""

import torch


def reference(a, b, a_log, dt_bias):
    step = torch.nn.functional.softplus(a.float() + dt_bias)
    return -torch.exp(a_log) * step, torch.sigmoid(b)
