"""RMS norm of Llama and its relatives: one program for each row."""

import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm(x, weight, out, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * cols
    places = tl.arange(0, BLOCK)
    inside = places < cols
    values = tl.load(x + row + places, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values) / cols + eps)
    normed = (values * scale).to(out.dtype.element_ty).to(tl.float32)  # rounded as the library does
    scaled = normed * tl.load(weight + places, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row + places, scaled, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        x = hidden_states.contiguous()
        out = torch.empty_like(x)
        cols = x.shape[-1]
        rms_norm[(x.numel() // cols,)](
            x, self.weight, out, cols, self.variance_epsilon, BLOCK=triton.next_power_of_2(cols)
        )
        return out
