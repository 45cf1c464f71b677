"""GELU of diffusers, by tanh or by erf: a matrix product, then one elementwise kernel."""

import torch
import triton
import triton.language as tl


@triton.jit
def activation(values, out, count, TANH: tl.constexpr, BLOCK: tl.constexpr):
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    x = tl.load(values + places, mask=inside, other=0.0).to(tl.float32)
    if TANH:
        inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        activated = x * tl.sigmoid(2.0 * inner)  # 0.5 * x * (1 + tanh(inner))
    else:
        activated = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    tl.store(out + places, activated, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, dim_in, dim_out, approximate="none", bias=True):
        super().__init__()
        self.proj = torch.nn.Linear(dim_in, dim_out, bias=bias)
        self.approximate = approximate

    def forward(self, hidden_states):
        x = self.proj(hidden_states)
        out = torch.empty_like(x)
        tanh = self.approximate == "tanh"
        activation[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), tanh, BLOCK=1024)
        return out
