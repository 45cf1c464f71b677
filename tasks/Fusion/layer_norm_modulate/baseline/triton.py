"""Modulated layer norm, a tile of tokens a program: once over their columns for the means, once
for the variances, once to scale.
"""

import triton
import triton.language as tl

# Elements a program holds at a time: rows that are short share a program.
# arena: tune TILE 1024 2048 4096 8192 16384
TILE = 4096

# arena: tune WARPS 2 4 8 16
WARPS = 8


@triton.jit
def layer_norm_modulate_kernel(
    x_ptr,
    shift_ptr,
    scale_ptr,
    out_ptr,
    rows,
    cols,
    tokens,
    eps,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
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
    inverse = 1 / tl.sqrt(tl.sum(squares, axis=1, keep_dims=True) / cols + eps)

    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        x = tl.load(x_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
        shift = tl.load(shift_ptr + row // tokens * cols + col, mask, other=0.0).to(tl.float32)
        scale = tl.load(scale_ptr + row // tokens * cols + col, mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * cols + col, (x - mean) * inverse * (1 + scale) + shift, mask)


def layer_norm_modulate(x, shift, scale, out, eps):
    batch, tokens, cols = x.shape
    rows = batch * tokens
    width = min(TILE, triton.next_power_of_2(cols))
    height = TILE // width
    layer_norm_modulate_kernel[(triton.cdiv(rows, height),)](
        x, shift, scale, out, rows, cols, tokens, eps, HEIGHT=height, WIDTH=width, num_warps=WARPS
    )
