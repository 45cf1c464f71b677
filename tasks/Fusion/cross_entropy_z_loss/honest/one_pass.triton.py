# honest: each logit read once: maximum and sum are rescaled on the way, parts of a row in parallel
import torch
import triton
import triton.language as tl

LANES = 1024
UNROLL = 4
MAX_PARTS = 16


@triton.jit
def part_kernel(logits, parts, cols, span, LANES: tl.constexpr, UNROLL: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    places = tl.arange(0, UNROLL)[:, None] * LANES + tl.arange(0, LANES)[None, :]
    end = tl.minimum(cols, (part + 1) * span)
    top = tl.full((LANES,), -1e30, tl.float32)
    total = tl.zeros((LANES,), tl.float32)
    for first in range(part * span, end, LANES * UNROLL):
        inside = first + places < end
        values = tl.load(logits + row * cols + first + places, inside, other=0.0).to(tl.float32)
        values = tl.where(inside, values, -1e30)
        highest = tl.maximum(top, tl.max(values, axis=0))
        powers = tl.where(inside, tl.exp(values - highest[None, :]), 0.0)
        total = total * tl.exp(top - highest) + tl.sum(powers, axis=0)
        top = highest
    overall = tl.max(top)
    at = parts + (row * tl.num_programs(1) + part) * 2
    tl.store(at, overall)
    tl.store(at + 1, tl.sum(total * tl.exp(top - overall)))


@triton.jit
def loss_kernel(
    logits, targets, parts, loss, z_loss, rows, cols, z_weight,
    COUNT: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    part = tl.arange(0, PARTS)[None, :]
    inside = (row < rows)[:, None] & (part < COUNT)
    at = parts + (row[:, None] * COUNT + part) * 2
    tops = tl.load(at, inside, other=-1e30)
    top = tl.max(tops, axis=1)
    total = tl.sum(tl.load(at + 1, inside, other=0.0) * tl.exp(tops - top[:, None]), axis=1)
    target = tl.load(targets + row, row < rows, other=0)
    chosen = tl.load(logits + row * cols + target, row < rows, other=0.0).to(tl.float32)
    logarithm = tl.log(total)
    lse = top + logarithm
    penalty = z_weight * lse * lse
    tl.store(loss + row, (top - chosen) + logarithm + penalty, row < rows)
    tl.store(z_loss + row, penalty, row < rows)


def cross_entropy_z_loss(logits, targets, loss, z_loss, z_weight):
    rows, cols = logits.shape
    step = LANES * UNROLL
    # Few rows are split, so that all multiprocessors have work.
    count = max(1, min(MAX_PARTS, triton.cdiv(1024, rows), triton.cdiv(cols, 4 * step)))
    span = triton.cdiv(triton.cdiv(cols, count), step) * step
    parts = torch.empty((rows, count, 2), dtype=torch.float32, device=logits.device)
    part_kernel[(rows, count)](logits, parts, cols, span, LANES=LANES, UNROLL=UNROLL, num_warps=8)
    loss_kernel[(triton.cdiv(rows, 16),)](
        logits, targets, parts, loss, z_loss, rows, cols, z_weight,
        COUNT=count, PARTS=triton.next_power_of_2(count), BLOCK=16, num_warps=1,
    )  # fmt: skip
