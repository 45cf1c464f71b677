"""xIELU, one program per block of elements."""

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
def xielu_kernel(x_ptr, out_ptr, count, alpha_p, alpha_n, beta, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    x = tl.load(x_ptr + offsets, mask, other=0.0).to(tl.float32)
    below = alpha_n * (expm1(tl.minimum(x, 0.0)) - x)
    tl.store(out_ptr + offsets, tl.where(x > 0, alpha_p * x * x, below) + beta * x, mask)


def xielu(x, out, alpha_p, alpha_n, beta):
    count = out.numel()
    xielu_kernel[(triton.cdiv(count, BLOCK),)](
        x, out, count, alpha_p, alpha_n, beta, BLOCK=BLOCK, num_warps=WARPS
    )
