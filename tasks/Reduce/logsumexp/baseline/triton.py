"""Log-sum-exp, a tile of rows a program: once over their columns for the maximum, once for the
sum.
"""

import triton
import triton.language as tl

# Elements a program holds at a time: rows that are short share a program.
# arena: tune TILE 1024 2048 4096 8192 16384
TILE = 4096

# arena: tune WARPS 2 4 8 16
WARPS = 8


@triton.jit
def logsumexp_kernel(x_ptr, out_ptr, rows, cols, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)[:, None]
    offsets = tl.arange(0, WIDTH)[None, :]

    maxima = tl.full((HEIGHT, WIDTH), float("-inf"), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        x = tl.load(x_ptr + row * cols + col, mask, other=float("-inf")).to(tl.float32)
        maxima = tl.maximum(maxima, x)
    largest = tl.max(maxima, axis=1, keep_dims=True)

    sums = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        x = tl.load(x_ptr + row * cols + col, mask, other=float("-inf")).to(tl.float32)
        sums += tl.exp(x - largest)
    total = tl.sum(sums, axis=1, keep_dims=True)
    tl.store(out_ptr + row, largest + tl.log(total), row < rows)


def logsumexp(x, out):
    rows, cols = x.shape
    width = min(TILE, triton.next_power_of_2(cols))
    height = TILE // width
    logsumexp_kernel[(triton.cdiv(rows, height),)](
        x, out, rows, cols, HEIGHT=height, WIDTH=width, num_warps=WARPS
    )
