"""Masked softmax, a tile of rows a program: once over their columns for the maximum, once for the
sum, once for the quotients.
"""

import triton
import triton.language as tl

# Elements a program holds at a time: rows that are short share a program.
# arena: tune TILE 1024 2048 4096 8192 16384
TILE = 4096

# arena: tune WARPS 2 4 8 16
WARPS = 8


@triton.jit
def masked_softmax_kernel(
    scores_ptr,
    mask_ptr,
    out_ptr,
    rows,
    cols,
    heads,
    queries,
    scale,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)[:, None]
    offsets = tl.arange(0, WIDTH)[None, :]

    mask_row = row // queries // heads * queries + row % queries

    maxima = tl.full((HEIGHT, WIDTH), float("-inf"), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        inside = (row < rows) & (col < cols)
        masked = tl.load(mask_ptr + mask_row * cols + col, inside, other=0)
        score = tl.load(scores_ptr + row * cols + col, inside, other=0.0).to(tl.float32)
        score = tl.where(inside & (masked == 0), score * scale, float("-inf"))
        maxima = tl.maximum(maxima, score)
    largest = tl.max(maxima, axis=1, keep_dims=True)
    # A row without a key has zeros.
    largest = tl.where(largest == float("-inf"), 0.0, largest)

    sums = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        inside = (row < rows) & (col < cols)
        masked = tl.load(mask_ptr + mask_row * cols + col, inside, other=0)
        score = tl.load(scores_ptr + row * cols + col, inside, other=0.0).to(tl.float32)
        score = tl.where(inside & (masked == 0), score * scale, float("-inf"))
        sums += tl.exp(score - largest)
    total = tl.sum(sums, axis=1, keep_dims=True)
    total = tl.where(total > 0, total, 1.0)

    for first in range(0, cols, WIDTH):
        col = first + offsets
        inside = (row < rows) & (col < cols)
        masked = tl.load(mask_ptr + mask_row * cols + col, inside, other=0)
        score = tl.load(scores_ptr + row * cols + col, inside, other=0.0).to(tl.float32)
        score = tl.where(inside & (masked == 0), score * scale, float("-inf"))
        tl.store(out_ptr + row * cols + col, tl.exp(score - largest) / total, inside)


def masked_softmax(scores, mask, out, scale):
    batch, heads, queries, cols = scores.shape
    rows = batch * heads * queries
    width = min(TILE, triton.next_power_of_2(cols))
    height = TILE // width
    masked_softmax_kernel[(triton.cdiv(rows, height),)](
        scores,
        mask,
        out,
        rows,
        cols,
        heads,
        queries,
        scale,
        HEIGHT=height,
        WIDTH=width,
        num_warps=WARPS,
    )
