"""Focal loss, a tile of anchors a program, once over their classes."""

import triton
import triton.language as tl

# Elements a program holds at a time: rows that are short share a program.
# arena: tune TILE 1024 2048 4096 8192 16384
TILE = 4096

# arena: tune WARPS 2 4 8 16
WARPS = 8


@triton.jit
def log1p(x):
    # The quotient corrects for the rounding of 1 + x.
    y = 1 + x
    return tl.where(y == 1, x, tl.log(y) * (x / tl.where(y == 1, 1.0, y - 1)))


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + log1p(tl.exp(-tl.abs(x)))


@triton.jit
def focal_loss_kernel(
    logits_ptr, label_ptr, loss_ptr, rows, cols, alpha, HEIGHT: tl.constexpr, WIDTH: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)[:, None]
    offsets = tl.arange(0, WIDTH)[None, :]

    label = tl.load(label_ptr + row, row < rows, other=0)
    sums = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        logits = tl.load(logits_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
        p = tl.sigmoid(logits)
        q = tl.sigmoid(-logits)
        positive = alpha * q * q * softplus(-logits)
        negative = (1 - alpha) * p * p * softplus(logits)
        sums += tl.where(mask, tl.where(col == label, positive, negative), 0.0)
    tl.store(loss_ptr + row, tl.sum(sums, axis=1, keep_dims=True), row < rows)


def focal_loss(logits, label, loss, alpha):
    rows, cols = logits.shape
    width = min(TILE, triton.next_power_of_2(cols))
    height = TILE // width
    focal_loss_kernel[(triton.cdiv(rows, height),)](
        logits, label, loss, rows, cols, alpha, HEIGHT=height, WIDTH=width, num_warps=WARPS
    )
