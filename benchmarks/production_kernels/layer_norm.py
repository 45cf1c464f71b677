"""PyTorch's layer norm over the last dimension: one program for each row."""

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm(
    x, weight, bias, out, cols, eps, WEIGHT: tl.constexpr, BIAS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * cols
    places = tl.arange(0, BLOCK)
    inside = places < cols
    values = tl.load(x + row + places, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(inside, values - tl.sum(values) / cols, 0.0)
    normed = centred * tl.rsqrt(tl.sum(centred * centred) / cols + eps)
    if WEIGHT:
        normed *= tl.load(weight + places, mask=inside, other=0.0).to(tl.float32)
    if BIAS:
        normed += tl.load(bias + places, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row + places, normed, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(
        self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None,
        dtype=None,
    ):  # fmt: skip
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape, self.eps = tuple(shape), eps
        self.elementwise_affine = elementwise_affine
        values = {"device": device, "dtype": dtype}
        self.weight = self.bias = None
        if elementwise_affine:
            self.weight = torch.nn.Parameter(torch.ones(self.normalized_shape, **values))
            if bias:
                self.bias = torch.nn.Parameter(torch.zeros(self.normalized_shape, **values))

    def forward(self, input):  # noqa: A002 - the library's name
        x = input.contiguous()
        out = torch.empty_like(x)
        cols = x.shape[-1]
        weight, bias = (x if each is None else each for each in (self.weight, self.bias))
        layer_norm[(x.numel() // cols,)](
            x, weight, bias, out, cols, self.eps, self.weight is not None, self.bias is not None,
            BLOCK=triton.next_power_of_2(cols),
        )  # fmt: skip
        return out
