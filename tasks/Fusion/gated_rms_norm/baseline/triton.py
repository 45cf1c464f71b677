"""SiLU gate and RMS norm, a tile of groups a program: once over their columns for the squares,
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
def gated_rms_norm_kernel(
    x_ptr,
    gate_ptr,
    weight_ptr,
    out_ptr,
    rows,
    cols,
    groups,
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
        gate = tl.load(gate_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
        y = x * gate * tl.sigmoid(gate)
        squares += y * y
    scale = 1 / tl.sqrt(tl.sum(squares, axis=1, keep_dims=True) / cols + eps)

    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        gate = tl.load(gate_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
        y = x * gate * tl.sigmoid(gate)
        weight = tl.load(weight_ptr + row % groups * cols + col, mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * cols + col, y * scale * weight, mask)


def gated_rms_norm(x, gate, weight, out, eps):
    tokens, groups, cols = x.shape
    rows = tokens * groups
    width = min(TILE, triton.next_power_of_2(cols))
    height = TILE // width
    gated_rms_norm_kernel[(triton.cdiv(rows, height),)](
        x, gate, weight, out, rows, cols, groups, eps, HEIGHT=height, WIDTH=width, num_warps=WARPS
    )
