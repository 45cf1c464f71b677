"""MLP of ModernBERT: one kernel for GELU of the first half and the product with the second."""

import torch
import triton
import triton.language as tl


@triton.jit
def gated(both, out, inner, BLOCK: tl.constexpr):
    row, places = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = places < inner
    x = tl.load(both + row * inner * 2 + places, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(both + row * inner * 2 + inner + places, mask=inside, other=0.0).to(tl.float32)
    activated = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    tl.store(out + row * inner + places, activated * y, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden, inner = config.hidden_size, int(config.intermediate_size)
        self.Wi = torch.nn.Linear(hidden, inner * 2, bias=config.mlp_bias)
        self.Wo = torch.nn.Linear(inner, hidden, bias=config.mlp_bias)

    def forward(self, hidden_states):
        both = self.Wi(hidden_states)
        inner = both.shape[-1] // 2
        out = both.new_empty((*both.shape[:-1], inner))
        grid = (both.numel() // (2 * inner), triton.cdiv(inner, 1024))
        gated[grid](both, out, inner, BLOCK=1024)
        return self.Wo(out)
