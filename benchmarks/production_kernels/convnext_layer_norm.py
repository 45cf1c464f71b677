"""ConvNeXt's layer norm of channels, which lie last or first: one program for each position."""

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm(x, weight, bias, out, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * cols
    places = tl.arange(0, BLOCK)
    inside = places < cols
    values = tl.load(x + row + places, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(inside, values - tl.sum(values) / cols, 0.0)
    normed = centred * tl.rsqrt(tl.sum(centred * centred) / cols + eps)
    normed *= tl.load(weight + places, mask=inside, other=0.0).to(tl.float32)
    normed += tl.load(bias + places, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row + places, normed, mask=inside)


class ModelNew(torch.nn.LayerNorm):
    def __init__(self, normalized_shape, *, eps=1e-6, data_format="channels_last", **kwargs):
        super().__init__(normalized_shape, eps=eps, **kwargs)
        self.data_format = data_format

    def forward(self, features):
        first = self.data_format == "channels_first"
        x = (features.permute(0, 2, 3, 1) if first else features).contiguous()
        out = torch.empty_like(x)
        cols = x.shape[-1]
        layer_norm[(x.numel() // cols,)](
            x, self.weight, self.bias, out, cols, self.eps, BLOCK=triton.next_power_of_2(cols)
        )
        return out.permute(0, 3, 1, 2) if first else out
