"""Weight demodulation, a tile of filters a program: once over their weights for the squares, once
to scale.
"""

import triton
import triton.language as tl

# Elements a program holds at a time: rows that are short share a program.
# arena: tune TILE 1024 2048 4096 8192 16384
TILE = 4096

# arena: tune WARPS 2 4 8 16
WARPS = 8


@triton.jit
def weight_demodulation_kernel(
    weight_ptr,
    style_ptr,
    out_ptr,
    rows,
    cols,
    filters,
    channels,
    taps,
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
        weight = tl.load(weight_ptr + row % filters * cols + col, mask, other=0.0).to(tl.float32)
        place = row // filters * channels + col // taps
        style = tl.load(style_ptr + place, mask, other=0.0).to(tl.float32)
        weight *= style
        squares += weight * weight
    scale = 1 / tl.sqrt(tl.sum(squares, axis=1, keep_dims=True) + eps)

    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        weight = tl.load(weight_ptr + row % filters * cols + col, mask, other=0.0).to(tl.float32)
        place = row // filters * channels + col // taps
        style = tl.load(style_ptr + place, mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * cols + col, weight * style * scale, mask)


def weight_demodulation(weight, style, out, eps):
    filters, channels, taps = weight.shape
    rows, cols = style.shape[0] * filters, channels * taps
    width = min(TILE, triton.next_power_of_2(cols))
    height = TILE // width
    weight_demodulation_kernel[(triton.cdiv(rows, height),)](
        weight,
        style,
        out,
        rows,
        cols,
        filters,
        channels,
        taps,
        eps,
        HEIGHT=height,
        WIDTH=width,
        num_warps=WARPS,
    )
