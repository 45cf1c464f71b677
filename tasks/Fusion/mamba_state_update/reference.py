"""Update the state of every channel by one token, and read it (Mamba, Gu and Dao, 2023).

For each item n, channel i and state j, with t = log(1 + exp(step[n, i] + step_bias[i])),

    new_state[n, i, j] = state[n, i, j] * exp(t * a[i, j]) + t * b[n, j] * x[n, i]
    y = d[i] * x[n, i] + sum over j of new_state[n, i, j] * c[n, j]
    out[n, i] = y * gate[n, i] / (1 + exp(-gate[n, i]))

`a` is negative, so that states decay. `state` and `new_state` are float32, whatever the dtype of
`x`, and so is all arithmetic; large steps must not overflow. Reading and writing the state is
nearly all traffic.
"""

import torch


def reference(state, x, step, step_bias, a, b, c, d, gate):
    x = x.float()
    t = torch.nn.functional.softplus(step.float() + step_bias)
    decayed = state * torch.exp(t[..., None] * a)
    new_state = decayed + (t * x)[..., None] * b.float()[:, None, :]
    y = (new_state * c.float()[:, None, :]).sum(dim=-1) + d * x
    return (y * torch.nn.functional.silu(gate.float())).to(gate.dtype), new_state
