"""RMS norm of Gemma, which scales by 1 + weight in float32: one program for each row."""

import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm(x, weight, out, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * cols
    places = tl.arange(0, BLOCK)
    inside = places < cols
    values = tl.load(x + row + places, mask=inside, other=0.0).to(tl.float32)
    normed = values * tl.rsqrt(tl.sum(values * values) / cols + eps)
    scale = 1.0 + tl.load(weight + places, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row + places, normed * scale, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        cols = x.shape[-1]
        rms_norm[(x.numel() // cols,)](
            x, self.weight, out, cols, self.eps, BLOCK=triton.next_power_of_2(cols)
        )
        return out
