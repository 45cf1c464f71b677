"""Layer norm, a tile of rows a program: once over their columns for the means, once for the
variances, once to scale.
"""

import triton
import triton.language as tl

# Elements a program holds at a time: rows that are short share a program.
# arena: tune TILE 1024 2048 4096 8192 16384
TILE = 4096

# arena: tune WARPS 2 4 8 16
WARPS = 8


@triton.jit
def layer_norm_kernel(
    x, weight, bias, out, rows, cols, eps, HEIGHT: tl.constexpr, WIDTH: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)
    start = row[:, None] * cols
    inside = (row < rows)[:, None]
    offsets = tl.arange(0, WIDTH)[None, :]

    sums = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        sums += tl.load(x + start + col, inside & (col < cols), other=0.0).to(tl.float32)
    mean = (tl.sum(sums, axis=1) / cols)[:, None]

    squares = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        values = tl.load(x + start + col, inside & (col < cols), other=0.0).to(tl.float32)
        centred = tl.where(col < cols, values - mean, 0.0)
        squares += centred * centred
    scale = (1 / tl.sqrt(tl.sum(squares, axis=1) / cols + eps))[:, None]

    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = inside & (col < cols)
        values = tl.load(x + start + col, mask, other=0.0).to(tl.float32)
        weights = tl.load(weight + col, col < cols, other=0.0).to(tl.float32)
        shifts = tl.load(bias + col, col < cols, other=0.0).to(tl.float32)
        tl.store(out + start + col, (values - mean) * scale * weights + shifts, mask)


def layer_norm(x, weight, bias, out, eps):
    rows, cols = x.shape
    width = min(TILE, triton.next_power_of_2(cols))
    height = TILE // width
    layer_norm_kernel[(triton.cdiv(rows, height),)](
        x, weight, bias, out, rows, cols, eps, HEIGHT=height, WIDTH=width, num_warps=WARPS
    )
