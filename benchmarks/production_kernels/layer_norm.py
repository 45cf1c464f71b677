"""PyTorch's layer norm over the last dimension: one program for each row."""

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm(x, weight, bias, out, cols, eps, AFFINE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * cols
    places = tl.arange(0, BLOCK)
    inside = places < cols
    values = tl.load(x + row + places, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(inside, values - tl.sum(values) / cols, 0.0)
    normed = centred * tl.rsqrt(tl.sum(centred * centred) / cols + eps)
    if AFFINE:
        normed *= tl.load(weight + places, mask=inside, other=0.0).to(tl.float32)
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
        if self.elementwise_affine and self.bias is None:
            shape, weight = self.normalized_shape, self.weight
            return torch.nn.functional.layer_norm(input, shape, weight, None, self.eps)
        x = input.contiguous()
        out = torch.empty_like(x)
        cols = x.shape[-1]
        weight, bias = (self.weight, self.bias) if self.elementwise_affine else (x, x)
        layer_norm[(x.numel() // cols,)](
            x, weight, bias, out, cols, self.eps, self.elementwise_affine,
            BLOCK=triton.next_power_of_2(cols),
        )  # fmt: skip
        return out
