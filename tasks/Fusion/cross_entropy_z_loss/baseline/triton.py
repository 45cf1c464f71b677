"""Cross entropy with z-loss, a tile of rows a program: once over their columns for the maximum,
once for the sum.
"""

import triton
import triton.language as tl

# Elements a program holds at a time: rows that are short share a program.
# arena: tune TILE 1024 2048 4096 8192 16384
TILE = 4096

# arena: tune WARPS 2 4 8 16
WARPS = 8


@triton.jit
def cross_entropy_z_loss_kernel(
    logits_ptr,
    targets_ptr,
    loss_ptr,
    z_loss_ptr,
    rows,
    cols,
    z_weight,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)[:, None]
    offsets = tl.arange(0, WIDTH)[None, :]

    maxima = tl.full((HEIGHT, WIDTH), float("-inf"), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        logits = tl.load(logits_ptr + row * cols + col, mask, other=float("-inf")).to(tl.float32)
        maxima = tl.maximum(maxima, logits)
    largest = tl.max(maxima, axis=1, keep_dims=True)

    sums = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        mask = (row < rows) & (col < cols)
        logits = tl.load(logits_ptr + row * cols + col, mask, other=float("-inf")).to(tl.float32)
        sums += tl.exp(logits - largest)
    lse = largest + tl.log(tl.sum(sums, axis=1, keep_dims=True))

    target = tl.load(targets_ptr + row, row < rows, other=0)
    of_target = tl.load(logits_ptr + row * cols + target, row < rows, other=0.0).to(tl.float32)
    z_loss = z_weight * lse * lse
    tl.store(loss_ptr + row, lse - of_target + z_loss, row < rows)
    tl.store(z_loss_ptr + row, z_loss, row < rows)


def cross_entropy_z_loss(logits, targets, loss, z_loss, z_weight):
    rows, cols = logits.shape
    width = min(TILE, triton.next_power_of_2(cols))
    height = TILE // width
    cross_entropy_z_loss_kernel[(triton.cdiv(rows, height),)](
        logits,
        targets,
        loss,
        z_loss,
        rows,
        cols,
        z_weight,
        HEIGHT=height,
        WIDTH=width,
        num_warps=WARPS,
    )
