"""Dice loss, a tile of masks a program, once over their pixels."""

import triton
import triton.language as tl

# Elements a program holds at a time: rows that are short share a program.
# arena: tune TILE 1024 2048 4096 8192 16384
TILE = 4096

# arena: tune WARPS 2 4 8 16
WARPS = 8


@triton.jit
def dice_loss_kernel(
    logits_ptr, target_ptr, loss_ptr, rows, cols, HEIGHT: tl.constexpr, WIDTH: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)[:, None]
    offsets = tl.arange(0, WIDTH)[None, :]

    overlaps = tl.zeros((HEIGHT, WIDTH), tl.float32)
    sizes = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        logits = tl.load(logits_ptr + row * cols + col, mask, other=0.0).to(tl.float32)
        target = tl.load(target_ptr + row * cols + col, mask, other=0)
        p = tl.where(mask, tl.sigmoid(logits), 0.0)
        hit = tl.where(target, 1.0, 0.0)
        overlaps += p * hit
        sizes += p + hit
    overlap = tl.sum(overlaps, axis=1, keep_dims=True)
    size = tl.sum(sizes, axis=1, keep_dims=True)
    tl.store(loss_ptr + row, 1 - (2 * overlap + 1) / (size + 1), row < rows)


def dice_loss(logits, target, loss):
    rows, cols = logits.shape
    width = min(TILE, triton.next_power_of_2(cols))
    height = TILE // width
    dice_loss_kernel[(triton.cdiv(rows, height),)](
        logits, target, loss, rows, cols, HEIGHT=height, WIDTH=width, num_warps=WARPS
    )
