"""Depthwise convolution of images, one program per block of results."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def depthwise_conv2d_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    count,
    channels,
    kernel,
    height,
    width,
    out_height,
    out_width,
    stride,
    BLOCK: tl.constexpr,
):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    out_col = offsets % out_width
    out_row = offsets // out_width % out_height
    plane = offsets // (out_width * out_height)
    channel = plane % channels
    padding = kernel // 2
    total = tl.load(bias_ptr + channel, mask, other=0.0).to(tl.float32)
    for dy in range(kernel):
        for dx in range(kernel):
            row = out_row * stride + dy - padding
            col = out_col * stride + dx - padding
            valid = mask & (row >= 0) & (row < height) & (col >= 0) & (col < width)
            place = (channel * kernel + dy) * kernel + dx
            weight = tl.load(weight_ptr + place, mask, other=0.0).to(tl.float32)
            place = (plane * height + row) * width + col
            total += weight * tl.load(x_ptr + place, valid, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, total, mask)


def depthwise_conv2d(x, weight, bias, out, stride):
    count = out.numel()
    channels = x.shape[1]
    kernel = weight.shape[1]
    height, width = x.shape[-2:]
    out_height, out_width = out.shape[-2:]
    depthwise_conv2d_kernel[(triton.cdiv(count, BLOCK),)](
        x,
        weight,
        bias,
        out,
        count,
        channels,
        kernel,
        height,
        width,
        out_height,
        out_width,
        stride,
        BLOCK=BLOCK,
        num_warps=WARPS,
    )
