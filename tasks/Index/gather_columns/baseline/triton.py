"""Gather along rows, one program per block of results."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def gather_columns_kernel(x_ptr, index_ptr, out_ptr, count, cols, picks, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    index = tl.load(index_ptr + offsets, mask, other=0)
    value = tl.load(x_ptr + offsets // picks * cols + index, mask, other=0.0)
    tl.store(out_ptr + offsets, value, mask)


def gather_columns(x, index, out):
    count = out.numel()
    cols = x.shape[1]
    picks = index.shape[1]
    gather_columns_kernel[(triton.cdiv(count, BLOCK),)](
        x, index, out, count, cols, picks, BLOCK=BLOCK, num_warps=WARPS
    )
