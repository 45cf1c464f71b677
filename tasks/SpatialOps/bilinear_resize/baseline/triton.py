"""Bilinear resize, one program per block of results."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def bilinear_resize_kernel(
    x_ptr, out_ptr, count, height, width, out_height, out_width, BLOCK: tl.constexpr
):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    out_col = offsets % out_width
    out_row = offsets // out_width % out_height
    plane = offsets // (out_width * out_height)
    y = tl.maximum((out_row.to(tl.float32) + 0.5) * (height / out_height) - 0.5, 0.0)
    x = tl.maximum((out_col.to(tl.float32) + 0.5) * (width / out_width) - 0.5, 0.0)
    top = tl.minimum(tl.floor(y).to(tl.int64), height - 1)
    left = tl.minimum(tl.floor(x).to(tl.int64), width - 1)
    bottom = tl.minimum(top + 1, height - 1)
    right = tl.minimum(left + 1, width - 1)
    y -= top.to(tl.float32)
    x -= left.to(tl.float32)

    upper = (plane * height + top) * width
    lower = (plane * height + bottom) * width
    upper_left = tl.load(x_ptr + upper + left, mask, other=0.0).to(tl.float32)
    upper_right = tl.load(x_ptr + upper + right, mask, other=0.0).to(tl.float32)
    lower_left = tl.load(x_ptr + lower + left, mask, other=0.0).to(tl.float32)
    lower_right = tl.load(x_ptr + lower + right, mask, other=0.0).to(tl.float32)
    above = (1 - x) * upper_left + x * upper_right
    below = (1 - x) * lower_left + x * lower_right
    tl.store(out_ptr + offsets, (1 - y) * above + y * below, mask)


def bilinear_resize(x, out, out_height, out_width):
    count = out.numel()
    height, width = x.shape[1:]
    bilinear_resize_kernel[(triton.cdiv(count, BLOCK),)](
        x, out, count, height, width, out_height, out_width, BLOCK=BLOCK, num_warps=WARPS
    )
