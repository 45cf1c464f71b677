"""Smooth L1 loss, a tile of boxes a program, once over their coordinates."""

import triton
import triton.language as tl

# Elements a program holds at a time: rows that are short share a program.
# arena: tune TILE 1024 2048 4096 8192 16384
TILE = 4096

# arena: tune WARPS 2 4 8 16
WARPS = 8


@triton.jit
def smooth_l1_loss_kernel(
    prediction_ptr,
    target_ptr,
    loss_ptr,
    rows,
    cols,
    beta,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)[:, None]
    offsets = tl.arange(0, WIDTH)[None, :]

    sums = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        prediction = tl.load(prediction_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
        target = tl.load(target_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
        d = tl.abs(prediction - target)
        sums += tl.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta)
    tl.store(loss_ptr + row, tl.sum(sums, axis=1, keep_dims=True), row < rows)


def smooth_l1_loss(prediction, target, loss, beta):
    rows, cols = prediction.shape
    width = min(TILE, triton.next_power_of_2(cols))
    height = TILE // width
    smooth_l1_loss_kernel[(triton.cdiv(rows, height),)](
        prediction, target, loss, rows, cols, beta, HEIGHT=height, WIDTH=width, num_warps=WARPS
    )
