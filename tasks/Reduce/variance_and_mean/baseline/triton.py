"""Variance and mean, a tile of rows a program: once over their columns for the means, once for the
variances.
"""

import triton
import triton.language as tl

# Elements a program holds at a time: rows that are short share a program.
# arena: tune TILE 1024 2048 4096 8192 16384
TILE = 4096

# arena: tune WARPS 2 4 8 16
WARPS = 8


@triton.jit
def variance_and_mean_kernel(
    x_ptr, variance_ptr, mean_ptr, rows, cols, HEIGHT: tl.constexpr, WIDTH: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)[:, None]
    offsets = tl.arange(0, WIDTH)[None, :]

    sums = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        sums += tl.load(x_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
    mean = tl.sum(sums, axis=1, keep_dims=True) / cols

    squares = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        x = tl.load(x_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
        centred = tl.where(mask, x - mean, 0.0)
        squares += centred * centred
    variance = tl.sum(squares, axis=1, keep_dims=True) / cols
    tl.store(mean_ptr + row, mean, row < rows)
    tl.store(variance_ptr + row, variance, row < rows)


def variance_and_mean(x, variance, mean):
    rows, cols = x.shape
    width = min(TILE, triton.next_power_of_2(cols))
    height = TILE // width
    variance_and_mean_kernel[(triton.cdiv(rows, height),)](
        x, variance, mean, rows, cols, HEIGHT=height, WIDTH=width, num_warps=WARPS
    )
