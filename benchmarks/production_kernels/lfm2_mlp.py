"""MLP of LFM2: one kernel for SiLU and the product with the other branch."""

import torch
import triton
import triton.language as tl


@triton.jit
def gated(gate, up, out, count, BLOCK: tl.constexpr):
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    x = tl.load(gate + places, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(up + places, mask=inside, other=0.0).to(tl.float32)
    activated = x * tl.sigmoid(x)
    tl.store(out + places, activated * y, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        inner = config.intermediate_size
        if config.block_auto_adjust_ff_dim:
            inner = int(2 * inner / 3)
            if config.block_ffn_dim_multiplier is not None:
                multiple = config.block_multiple_of
                inner = int(config.block_ffn_dim_multiplier * inner)
                inner = multiple * ((inner + multiple - 1) // multiple)
        self.w1 = torch.nn.Linear(config.hidden_size, inner, bias=False)
        self.w3 = torch.nn.Linear(config.hidden_size, inner, bias=False)
        self.w2 = torch.nn.Linear(inner, config.hidden_size, bias=False)

    def forward(self, x):
        gate, up = self.w1(x), self.w3(x)
        out = torch.empty_like(gate)
        gated[(triton.cdiv(gate.numel(), 1024),)](gate, up, out, gate.numel(), BLOCK=1024)
        return self.w2(out)
