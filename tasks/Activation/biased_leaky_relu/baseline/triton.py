"""Biased leaky ReLU, one program per block of elements."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def biased_leaky_relu_kernel(
    x_ptr, bias_ptr, out_ptr, count, channels, pixels, slope, gain, BLOCK: tl.constexpr
):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    x = tl.load(x_ptr + offsets, mask, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + offsets // pixels % channels, mask, other=0.0).to(tl.float32)
    y = x + bias
    tl.store(out_ptr + offsets, gain * tl.where(y >= 0, y, slope * y), mask)


def biased_leaky_relu(x, bias, out, slope, gain):
    count = out.numel()
    channels, pixels = x.shape[1:]
    biased_leaky_relu_kernel[(triton.cdiv(count, BLOCK),)](
        x, bias, out, count, channels, pixels, slope, gain, BLOCK=BLOCK, num_warps=WARPS
    )
