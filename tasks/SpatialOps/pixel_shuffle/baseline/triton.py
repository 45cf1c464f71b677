"""Pixel shuffle, one program per block of results."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def pixel_shuffle_kernel(x_ptr, out_ptr, count, height, width, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    out_col = offsets % (width * factor)
    out_row = offsets // (width * factor) % (height * factor)
    channel = offsets // (width * factor) // (height * factor)
    plane = (channel * factor + out_row % factor) * factor + out_col % factor
    row = plane * height + out_row // factor
    value = tl.load(x_ptr + row * width + out_col // factor, mask, other=0.0)
    tl.store(out_ptr + offsets, value, mask)


def pixel_shuffle(x, out, factor):
    count = out.numel()
    height, width = x.shape[2:]
    pixel_shuffle_kernel[(triton.cdiv(count, BLOCK),)](
        x, out, count, height, width, factor, BLOCK=BLOCK, num_warps=WARPS
    )
