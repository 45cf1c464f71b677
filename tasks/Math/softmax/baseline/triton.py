"""Softmax, a tile of whole rows a program: maximum and sum in one loop, quotients in another."""

import triton
import triton.language as tl

# Elements a program holds at a time: rows that are short share a program.
# arena: tune TILE 1024 2048 4096 8192 16384
TILE = 4096

# arena: tune WARPS 2 4 8 16
WARPS = 8

# Blocks of a row in flight while the sum is taken.
# arena: tune STAGES 1 2 3 4
STAGES = 2


@triton.jit
def softmax_kernel(
    x, out, rows, cols, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, STAGES: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)
    # Below the last row of the matrix a program repeats that row, and stores nothing.
    start = tl.minimum(row, rows - 1)[:, None] * cols
    inside = (row < rows)[:, None]
    offsets = tl.arange(0, WIDTH)[None, :]

    shift = tl.full((HEIGHT,), float("-inf"), tl.float32)
    sums = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in tl.range(0, cols, WIDTH, num_stages=STAGES):
        col = first + offsets
        values = tl.load(x + start + col, col < cols, other=float("-inf")).to(tl.float32)
        top = tl.maximum(shift, tl.max(values, axis=1))
        sums = sums * tl.exp(shift - top)[:, None] + tl.exp(values - top[:, None])
        shift = top
    scale = 1 / tl.sum(sums, axis=1)

    for first in range(0, cols, WIDTH):
        col = first + offsets
        values = tl.load(x + start + col, col < cols, other=float("-inf")).to(tl.float32)
        powers = tl.exp(values - shift[:, None])
        tl.store(out + start + col, powers * scale[:, None], inside & (col < cols))


def softmax(x, out):
    rows, cols = x.shape
    width = min(TILE, triton.next_power_of_2(cols))
    height = TILE // width
    softmax_kernel[(triton.cdiv(rows, height),)](
        x, out, rows, cols, HEIGHT=height, WIDTH=width, STAGES=STAGES, num_warps=WARPS
    )
