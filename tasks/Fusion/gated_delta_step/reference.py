"""Update the state of every head by one token, and read it (Yang, Kautz and Hatamizadeh, 2024).

Queries and keys are first divided by their norm: q' = q / sqrt(sum(q^2) + 1e-6), likewise k'.
Then, for each item b and head h, with S[i, j] the state after its decay,

    S[i, j] = state[i, j] * exp(log_decay)
    d[j] = beta * (v[j] - sum over i of S[i, j] * k'[i])
    new_state[i, j] = S[i, j] + k'[i] * d[j]
    out[j] = (sum over i of new_state[i, j] * q'[i]) / sqrt(key_dim)

`state` and `new_state` are float32, whatever the dtype of `q`, `k` and `v`, and so is all
arithmetic. A step reads and writes the state once, which is nearly all of its traffic.
"""

import torch


def reference(state, q, k, v, log_decay, beta):
    q, k = _normal(q.float()), _normal(k.float())
    decayed = state * torch.exp(log_decay)[..., None, None]
    seen = (decayed * k[..., None]).sum(dim=-2)
    change = beta[..., None] * (v.float() - seen)
    new_state = decayed + k[..., None] * change[..., None, :]
    out = (new_state * q[..., None]).sum(dim=-2) / q.shape[-1] ** 0.5
    return out.to(v.dtype), new_state


def _normal(x):
    return x * torch.rsqrt(x.square().sum(dim=-1, keepdim=True) + 1e-6)
