"""GRPO loss, a tile of sequences a program, once over their tokens."""

import triton
import triton.language as tl

# Elements a program holds at a time: rows that are short share a program.
# arena: tune TILE 1024 2048 4096 8192 16384
TILE = 4096

# arena: tune WARPS 2 4 8 16
WARPS = 8


@triton.jit
def expm1(x):
    # A series where exp(x) - 1 cancels.
    series = x * (1 / 3628800) + 1 / 362880
    series = series * x + 1 / 40320
    series = series * x + 1 / 5040
    series = series * x + 1 / 720
    series = series * x + 1 / 120
    series = series * x + 1 / 24
    series = series * x + 1 / 6
    series = series * x + 0.5
    return tl.where(tl.abs(x) < 1, series * x * x + x, tl.exp(x) - 1)


@triton.jit
def grpo_loss_kernel(
    log_probs_ptr,
    old_log_probs_ptr,
    reference_log_probs_ptr,
    advantage_ptr,
    mask_ptr,
    loss_ptr,
    rows,
    cols,
    clip,
    beta,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)[:, None]
    offsets = tl.arange(0, WIDTH)[None, :]

    advantage = tl.load(advantage_ptr + row, row < rows, other=0.0).to(tl.float32)
    sums = tl.zeros((HEIGHT, WIDTH), tl.float32)
    counts = tl.zeros((HEIGHT, WIDTH), tl.float32)
    for first in range(0, cols, WIDTH):
        col = first + offsets
        inside = (row < rows) & (col < cols)
        place = row * cols + col
        log_probs = tl.load(log_probs_ptr + place, inside, other=0.0).to(tl.float32)
        old = tl.load(old_log_probs_ptr + place, inside, other=0.0).to(tl.float32)
        reference = tl.load(reference_log_probs_ptr + place, inside, other=0.0).to(tl.float32)
        kept = tl.load(mask_ptr + place, inside, other=0)
        ratio = tl.exp(log_probs - old)
        clipped = tl.minimum(tl.maximum(ratio, 1 - clip), 1 + clip)
        gain = tl.minimum(ratio * advantage, clipped * advantage)
        d = reference - log_probs
        sums += tl.where(kept, beta * (expm1(d) - d) - gain, 0.0)
        counts += tl.where(kept, 1.0, 0.0)
    total = tl.sum(sums, axis=1, keep_dims=True)
    count = tl.sum(counts, axis=1, keep_dims=True)
    tl.store(loss_ptr + row, total / tl.maximum(count, 1.0), row < rows)


def grpo_loss(log_probs, old_log_probs, reference_log_probs, advantage, mask, loss, clip, beta):
    rows, cols = log_probs.shape
    width = min(TILE, triton.next_power_of_2(cols))
    height = TILE // width
    grpo_loss_kernel[(triton.cdiv(rows, height),)](
        log_probs,
        old_log_probs,
        reference_log_probs,
        advantage,
        mask,
        loss,
        rows,
        cols,
        clip,
        beta,
        HEIGHT=height,
        WIDTH=width,
        num_warps=WARPS,
    )
