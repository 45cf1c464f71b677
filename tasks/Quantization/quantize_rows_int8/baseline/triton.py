"""Quantisation to int8, a tile of rows a program: once over their columns for the scale, once to
round.
"""

import triton
import triton.language as tl

# Elements a program holds at a time: rows that are short share a program.
# arena: tune TILE 1024 2048 4096 8192 16384
TILE = 4096

# arena: tune WARPS 2 4 8 16
WARPS = 8


@triton.jit
def quantize_rows_int8_kernel(
    x_ptr, q_ptr, scale_ptr, rows, cols, HEIGHT: tl.constexpr, WIDTH: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)[:, None]
    offsets = tl.arange(0, WIDTH)[None, :]

    maxima = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        x = tl.load(x_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
        maxima = tl.maximum(maxima, tl.abs(x))
    largest = tl.max(maxima, axis=1, keep_dims=True)
    scale = tl.div_rn(tl.maximum(largest, 1e-12), 127.0)
    tl.store(scale_ptr + row, scale, row < rows)

    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        x = tl.load(x_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
        # Beside 1.5 * 2^23 there is no room for a fraction: what is added is rounded, ties to even.
        rounded = tl.div_rn(x, scale) + 12582912.0 - 12582912.0
        tl.store(q_ptr + row * cols + col, rounded.to(tl.int8), mask)


def quantize_rows_int8(x, q, scale):
    rows, cols = x.shape
    width = min(TILE, triton.next_power_of_2(cols))
    height = TILE // width
    quantize_rows_int8_kernel[(triton.cdiv(rows, height),)](
        x, q, scale, rows, cols, HEIGHT=height, WIDTH=width, num_warps=WARPS
    )
