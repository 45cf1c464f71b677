"""Max pooling, one program per block of results."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def max_pool2d_kernel(
    x_ptr,
    out_ptr,
    count,
    height,
    width,
    out_height,
    out_width,
    kernel,
    stride,
    padding,
    BLOCK: tl.constexpr,
):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    out_col = offsets % out_width
    out_row = offsets // out_width % out_height
    plane = offsets // (out_width * out_height)

    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    for dy in range(kernel):
        for dx in range(kernel):
            row = out_row * stride + dy - padding
            col = out_col * stride + dx - padding
            valid = mask & (row >= 0) & (row < height) & (col >= 0) & (col < width)
            place = (plane * height + row) * width + col
            value = tl.load(x_ptr + place, valid, other=float("-inf")).to(tl.float32)
            largest = tl.maximum(largest, value)
    tl.store(out_ptr + offsets, largest, mask)


def max_pool2d(x, out, kernel, stride, padding):
    count = out.numel()
    height, width = x.shape[-2:]
    out_height, out_width = out.shape[-2:]
    max_pool2d_kernel[(triton.cdiv(count, BLOCK),)](
        x,
        out,
        count,
        height,
        width,
        out_height,
        out_width,
        kernel,
        stride,
        padding,
        BLOCK=BLOCK,
        num_warps=WARPS,
    )
