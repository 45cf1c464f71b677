"""Causal depthwise convolution and SiLU, one program per block of results."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def causal_conv1d_silu_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, count, channels, length, taps, BLOCK: tl.constexpr
):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    t = offsets % length
    channel = offsets // length % channels
    total = tl.load(bias_ptr + channel, mask, other=0.0).to(tl.float32)
    for tap in range(taps):
        back = taps - 1 - tap
        weight = tl.load(weight_ptr + channel * taps + tap, mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + offsets - back, mask & (t >= back), other=0.0).to(tl.float32)
        total += weight * x
    tl.store(out_ptr + offsets, total * tl.sigmoid(total), mask)


def causal_conv1d_silu(x, weight, bias, out):
    count = out.numel()
    channels, length = x.shape[1:]
    taps = weight.shape[1]
    causal_conv1d_silu_kernel[(triton.cdiv(count, BLOCK),)](
        x, weight, bias, out, count, channels, length, taps, BLOCK=BLOCK, num_warps=WARPS
    )
