"""SwiGLU (Shazeer, 2020) and its backward pass, as in one step of training.

    gate, up: the halves of each row of x
    out = gate * s * up, where s = 1 / (1 + exp(-gate))

`gradient` is the gradient of the loss with respect to `out`. The halves of each row of `x_gradient`
are the gradients with respect to `gate` and `up`:

    gate_gradient = gradient * up * s * (1 + gate * (1 - s))
    up_gradient = gradient * gate * s

Compute in float32 or better, whatever the dtype of `x`, and round each output once.
"""

import torch


def reference(x, gradient):
    def forward(x):
        gate, up = x.chunk(2, dim=-1)
        return torch.nn.functional.silu(gate) * up

    out, backward = torch.func.vjp(forward, x.float())
    return out.to(x.dtype), backward(gradient.float())[0].to(x.dtype)
