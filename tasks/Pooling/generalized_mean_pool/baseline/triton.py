"""Generalised mean, a tile of rows a program, once over their pixels."""

import triton
import triton.language as tl

# Elements a program holds at a time: rows that are short share a program.
# arena: tune TILE 1024 2048 4096 8192 16384
TILE = 4096

# arena: tune WARPS 2 4 8 16
WARPS = 8


@triton.jit
def generalized_mean_pool_kernel(
    x_ptr, out_ptr, rows, cols, power, eps, HEIGHT: tl.constexpr, WIDTH: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)[:, None]
    offsets = tl.arange(0, WIDTH)[None, :]

    sums = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        x = tl.load(x_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
        powers = tl.exp(power * tl.log(tl.maximum(x, eps)))
        sums += tl.where(mask, powers, 0.0)
    mean = tl.sum(sums, axis=1, keep_dims=True) / cols
    tl.store(out_ptr + row, tl.exp(tl.log(mean) / power), row < rows)


def generalized_mean_pool(x, out, power, eps):
    rows, cols = x.shape
    width = min(TILE, triton.next_power_of_2(cols))
    height = TILE // width
    generalized_mean_pool_kernel[(triton.cdiv(rows, height),)](
        x, out, rows, cols, power, eps, HEIGHT=height, WIDTH=width, num_warps=WARPS
    )
