"""Cumulative sums, one program per row, which carries the sum from block to block."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def cumsum_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    carry = tl.full((), 0.0, tl.float32)
    for first in range(0, cols, BLOCK):
        col = first + tl.arange(0, BLOCK)
        mask = col < cols
        x = tl.load(x_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * cols + col, carry + tl.cumsum(x), mask)
        carry += tl.sum(x)


def cumsum(x, out):
    rows, cols = x.shape
    block = min(BLOCK, triton.next_power_of_2(cols))
    cumsum_kernel[(rows,)](x, out, cols, BLOCK=block, num_warps=WARPS)
