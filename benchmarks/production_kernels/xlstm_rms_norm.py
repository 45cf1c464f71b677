"""RMS norm of xLSTM, with or without weight and bias: one program for each row."""

import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm(
    x, weight, bias, out, cols, eps, WEIGHT: tl.constexpr, BIAS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * cols
    places = tl.arange(0, BLOCK)
    inside = places < cols
    values = tl.load(x + row + places, mask=inside, other=0.0).to(tl.float32)
    normed = values * tl.rsqrt(tl.sum(values * values) / cols + eps)
    if WEIGHT:
        normed *= tl.load(weight + places, mask=inside, other=0.0).to(tl.float32)
    if BIAS:
        normed += tl.load(bias + places, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row + places, normed, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(
        self, num_features, eps=1e-6, use_weight=True, use_bias=False,
        force_float32_reductions=True,
    ):  # fmt: skip
        super().__init__()
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.ones(num_features)) if use_weight else None
        self.bias = torch.nn.Parameter(torch.zeros(num_features)) if use_bias else None

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        cols = x.shape[-1]
        weight, bias = (x if each is None else each for each in (self.weight, self.bias))
        rms_norm[(x.numel() // cols,)](
            x, weight, bias, out, cols, self.eps, self.weight is not None, self.bias is not None,
            BLOCK=triton.next_power_of_2(cols),
        )  # fmt: skip
        return out
