"""MLP of the token2wav DiT: two matrix products, and one kernel for the GELU by tanh."""

import torch
import triton
import triton.language as tl


@triton.jit
def activation(values, out, count, BLOCK: tl.constexpr):
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    x = tl.load(values + places, mask=inside, other=0.0).to(tl.float32)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    activated = x * tl.sigmoid(2.0 * inner)  # 0.5 * x * (1 + tanh(inner))
    tl.store(out + places, activated, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, dim, mult=4, dropout=0.0):
        super().__init__()
        inner = int(dim * mult)
        between = torch.nn.Identity(), torch.nn.Identity()  # GELU and dropout have no weights
        self.ff = torch.nn.ModuleList(
            [torch.nn.Linear(dim, inner), *between, torch.nn.Linear(inner, dim)]
        )

    def forward(self, hidden_states):
        x = self.ff[0](hidden_states)
        out = torch.empty_like(x)
        activation[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return self.ff[3](out)
