"""Solution of unit lower triangular systems by forward substitution, one program per matrix and
block of right-hand sides, which stay in registers.
"""

import triton
import triton.language as tl

# arena: tune COLS 8 16 32 64
COLS = 32

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def unit_lower_solve_kernel(
    a_ptr, b_ptr, x_ptr, size, cols, SIDE: tl.constexpr, COLS: tl.constexpr
):
    matrix = tl.program_id(0).to(tl.int64)
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    depth = tl.arange(0, SIDE)
    row = depth[:, None]
    mask = (row < size) & (col < cols)
    offsets = (matrix * size + row) * cols + col

    x = tl.load(b_ptr + offsets, mask, other=0.0)
    for step in range(1, size):
        a = tl.load(a_ptr + (matrix * size + step) * size + depth, depth < step, other=0.0)
        known = tl.sum(a[:, None] * x, axis=0, keep_dims=True)
        x = tl.where(row == step, x - known, x)
    tl.store(x_ptr + offsets, x, mask)


def unit_lower_solve(a, b, x):
    batch, size, cols = b.shape
    unit_lower_solve_kernel[(batch, triton.cdiv(cols, COLS))](
        a, b, x, size, cols, SIDE=triton.next_power_of_2(size), COLS=COLS, num_warps=WARPS
    )
