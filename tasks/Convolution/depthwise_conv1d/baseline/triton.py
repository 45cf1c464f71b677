"""Depthwise convolution of sequences, one program per block of results."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def depthwise_conv1d_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, count, channels, time, kernel, BLOCK: tl.constexpr
):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    t = offsets % time
    channel = offsets // time % channels
    total = tl.load(bias_ptr + channel, mask, other=0.0).to(tl.float32)
    for tap in range(kernel):
        shift = tap - kernel // 2
        valid = mask & (t + shift >= 0) & (t + shift < time)
        weight = tl.load(weight_ptr + channel * kernel + tap, mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + offsets + shift, valid, other=0.0).to(tl.float32)
        total += weight * x
    tl.store(out_ptr + offsets, total, mask)


def depthwise_conv1d(x, weight, bias, out):
    count = out.numel()
    channels, time = x.shape[1:]
    kernel = weight.shape[1]
    depthwise_conv1d_kernel[(triton.cdiv(count, BLOCK),)](
        x, weight, bias, out, count, channels, time, kernel, BLOCK=BLOCK, num_warps=WARPS
    )
