"""Group norm: moments of each chunk of a group, then all chunks normalised by their combination."""

import torch
import triton
import triton.language as tl


@triton.jit
def moments(x, means, squares, size, BLOCK: tl.constexpr):
    group, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    places = chunk * BLOCK + tl.arange(0, BLOCK)
    inside = places < size
    values = tl.load(x + group * size + places, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values) / tl.minimum(BLOCK, size - chunk * BLOCK)
    centred = tl.where(inside, values - mean, 0.0)
    tl.store(means + group * tl.num_programs(1) + chunk, mean)
    tl.store(squares + group * tl.num_programs(1) + chunk, tl.sum(centred * centred))


@triton.jit
def normalise(
    x, weight, bias, means, squares, out, size, positions, channels, groups, eps,
    AFFINE: tl.constexpr, CHUNKS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    group, chunk, chunks = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    numbers = tl.arange(0, CHUNKS)
    known = numbers < chunks
    counts = tl.where(known, tl.minimum(BLOCK, size - numbers * BLOCK), 0).to(tl.float32)
    each = tl.load(means + group * chunks + numbers, mask=known, other=0.0)
    mean = tl.sum(each * counts) / size
    within = tl.load(squares + group * chunks + numbers, mask=known, other=0.0)
    apart = each - mean
    scale = tl.rsqrt(tl.sum(within + apart * apart * counts) / size + eps)
    places = chunk * BLOCK + tl.arange(0, BLOCK)
    inside = places < size
    values = tl.load(x + group * size + places, mask=inside, other=0.0).to(tl.float32)
    normed = (values - mean) * scale
    if AFFINE:
        channel = (group % groups) * (channels // groups) + places // positions
        normed *= tl.load(weight + channel, mask=inside, other=0.0).to(tl.float32)
        normed += tl.load(bias + channel, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + group * size + places, normed, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, *arguments, **named):
        super().__init__()
        given = torch.nn.GroupNorm(*arguments, **named)
        self.weight, self.bias, self.affine = given.weight, given.bias, given.affine
        self.num_groups, self.num_channels, self.eps = (
            given.num_groups, given.num_channels, given.eps,
        )  # fmt: skip

    def forward(self, input):  # noqa: A002 - the library's name
        x = input.contiguous()
        out = torch.empty_like(x)
        positions = x[0, 0].numel()
        rows = x.shape[0] * self.num_groups
        size = x.numel() // rows
        chunks = triton.cdiv(size, 4096)
        means, squares = x.new_empty((2, rows, chunks), dtype=torch.float32)
        moments[(rows, chunks)](x, means, squares, size, BLOCK=4096)
        weight, bias = (self.weight, self.bias) if self.affine else (x, x)
        normalise[(rows, chunks)](
            x, weight, bias, means, squares, out, size, positions, self.num_channels,
            self.num_groups, self.eps, self.affine, triton.next_power_of_2(chunks), BLOCK=4096,
        )  # fmt: skip
        return out
