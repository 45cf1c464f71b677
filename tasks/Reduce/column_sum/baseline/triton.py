"""Column sums, one program per block of columns, which walks down all rows."""

import triton
import triton.language as tl

# arena: tune ROWS 16 32 64 128
ROWS = 64

# arena: tune COLS 16 32 64 128
COLS = 32

# arena: tune WARPS 2 4 8
WARPS = 4


@triton.jit
def column_sum_kernel(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    offsets = tl.arange(0, ROWS).to(tl.int64)[:, None]
    sums = tl.zeros((ROWS, COLS), tl.float32)
    for first in range(0, rows, ROWS):
        row = first + offsets
        mask = (row < rows) & (col < cols)
        sums += tl.load(x_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + col, tl.sum(sums, axis=0, keep_dims=True), col < cols)


def column_sum(x, out):
    rows, cols = x.shape
    column_sum_kernel[(triton.cdiv(cols, COLS),)](
        x, out, rows, cols, ROWS=ROWS, COLS=COLS, num_warps=WARPS
    )
