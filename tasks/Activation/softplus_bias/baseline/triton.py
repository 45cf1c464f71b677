"""Softplus of a biased input, one program per block of elements."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def log1p(x):
    # The quotient corrects for the rounding of 1 + x.
    y = 1 + x
    return tl.where(y == 1, x, tl.log(y) * (x / tl.where(y == 1, 1.0, y - 1)))


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + log1p(tl.exp(-tl.abs(x)))


@triton.jit
def softplus_bias_kernel(x_ptr, bias_ptr, out_ptr, count, channels, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    x = tl.load(x_ptr + offsets, mask, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + offsets % channels, mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, softplus(x + bias), mask)


def softplus_bias(x, bias, out):
    count = out.numel()
    channels = x.shape[1]
    softplus_bias_kernel[(triton.cdiv(count, BLOCK),)](
        x, bias, out, count, channels, BLOCK=BLOCK, num_warps=WARPS
    )
