"""RMS norm of DiffusionGemma, which scales in float32 or not at all: one program for each row."""

import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm(x, weight, out, cols, eps, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * cols
    places = tl.arange(0, BLOCK)
    inside = places < cols
    values = tl.load(x + row + places, mask=inside, other=0.0).to(tl.float32)
    normed = values * tl.rsqrt(tl.sum(values * values) / cols + eps)
    if SCALE:
        normed *= tl.load(weight + places, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row + places, normed, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, dim, eps=1e-6, with_scale=True):
        super().__init__()
        self.eps = eps
        self.with_scale = with_scale
        if with_scale:
            self.weight = torch.nn.Parameter(torch.ones(dim))

    def forward(self, hidden_states):
        x = hidden_states.contiguous()
        out = torch.empty_like(x)
        cols = x.shape[-1]
        weight = self.weight if self.with_scale else x
        rms_norm[(x.numel() // cols,)](
            x, weight, out, cols, self.eps, self.with_scale, BLOCK=triton.next_power_of_2(cols)
        )
        return out
