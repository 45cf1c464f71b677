# honest: sixteen rows at a time: products with the rows before, then substitution in registers
import triton
import triton.language as tl


@triton.jit
def solve_kernel(a, b, x, size, cols, SIDE: tl.constexpr, COLS: tl.constexpr):
    matrix = tl.program_id(0).to(tl.int64)
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    lane = tl.arange(0, SIDE)
    for first in range(0, size, SIDE):
        row = first + lane
        own = a + (matrix * size + row)[:, None] * size
        at = (matrix * size + row)[:, None] * cols + col[None, :]
        inside = (row < size)[:, None] & (col < cols)[None, :]
        rest = tl.load(b + at, inside, other=0.0)
        for before in range(0, first, SIDE):
            left = tl.load(own + before + lane[None, :], (row < size)[:, None], other=0.0)
            known = x + (matrix * size + before + lane)[:, None] * cols + col[None, :]
            right = tl.load(known, (lane < SIDE)[:, None] & (col < cols)[None, :], other=0.0)
            rest -= tl.dot(left, right, input_precision="ieee")
        for step in tl.static_range(SIDE - 1):
            left = tl.load(own + first + step, ((lane > step) & (row < size))[:, None], other=0.0)
            right = tl.sum(tl.where((lane == step)[:, None], rest, 0.0), axis=0)
            rest -= left * right[None, :]
        tl.store(x + at, rest, inside)
        tl.debug_barrier()


def unit_lower_solve(a, b, x):
    batch, size, cols = b.shape
    width = 32 if cols <= 32 else 64
    solve_kernel[(batch, triton.cdiv(cols, width))](
        a, b, x, size, cols, SIDE=16, COLS=width, num_warps=2
    )
