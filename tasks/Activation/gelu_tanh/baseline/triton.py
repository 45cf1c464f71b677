"""GELU by tanh, one program per block of elements."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def expm1(x):
    # A series where exp(x) - 1 cancels.
    series = x * (1 / 3628800) + 1 / 362880
    series = series * x + 1 / 40320
    series = series * x + 1 / 5040
    series = series * x + 1 / 720
    series = series * x + 1 / 120
    series = series * x + 1 / 24
    series = series * x + 1 / 6
    series = series * x + 0.5
    return tl.where(tl.abs(x) < 1, series * x * x + x, tl.exp(x) - 1)


@triton.jit
def tanh(x):
    size = tl.abs(x)
    small = expm1(2 * tl.minimum(size, 0.5))
    result = tl.where(size < 0.5, small / (small + 2), 1 - 2 / (tl.exp(2 * size) + 1))
    return tl.where(x < 0, -result, result)


@triton.jit
def gelu_tanh_kernel(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    x = tl.load(x_ptr + offsets, mask, other=0.0).to(tl.float32)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    tl.store(out_ptr + offsets, 0.5 * x * (1 + tanh(inner)), mask)


def gelu_tanh(x, out):
    count = out.numel()
    gelu_tanh_kernel[(triton.cdiv(count, BLOCK),)](x, out, count, BLOCK=BLOCK, num_warps=WARPS)
