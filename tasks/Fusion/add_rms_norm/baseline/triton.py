"""Residual sum and RMS norm, a tile of rows a program: once over their columns for the squares,
once to scale.
"""

import triton
import triton.language as tl

# Elements a program holds at a time: rows that are short share a program.
# arena: tune TILE 1024 2048 4096 8192 16384
TILE = 4096

# arena: tune WARPS 2 4 8 16
WARPS = 8


@triton.jit
def add_rms_norm_kernel(
    x_ptr,
    residual_ptr,
    weight_ptr,
    out_ptr,
    residual_out_ptr,
    rows,
    cols,
    eps,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)[:, None]
    offsets = tl.arange(0, WIDTH)[None, :]

    squares = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        total = tl.load(x_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
        total += tl.load(residual_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
        squares += total * total
    scale = 1 / tl.sqrt(tl.sum(squares, axis=1, keep_dims=True) / cols + eps)

    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        total = tl.load(x_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
        total += tl.load(residual_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + col, col < cols, other=0.0).to(tl.float32)
        tl.store(residual_out_ptr + row * cols + col, total, mask)
        tl.store(out_ptr + row * cols + col, total * scale * weight, mask)


def add_rms_norm(x, residual, weight, out, residual_out, eps):
    rows, cols = x.shape
    width = min(TILE, triton.next_power_of_2(cols))
    height = TILE // width
    add_rms_norm_kernel[(triton.cdiv(rows, height),)](
        x,
        residual,
        weight,
        out,
        residual_out,
        rows,
        cols,
        eps,
        HEIGHT=height,
        WIDTH=width,
        num_warps=WARPS,
    )
