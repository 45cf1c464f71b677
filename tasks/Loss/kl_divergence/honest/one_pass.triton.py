# honest: each logit read once: maxima, sums and the weighed difference are rescaled on the way
import torch
import triton
import triton.language as tl

LANES = 512
UNROLL = 4
MAX_PARTS = 16


@triton.jit
def part_kernel(
    student, teacher, parts, cols, span, inverse, LANES: tl.constexpr, UNROLL: tl.constexpr
):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    places = tl.arange(0, UNROLL)[:, None] * LANES + tl.arange(0, LANES)[None, :]
    end = tl.minimum(cols, (part + 1) * span)
    s_top = tl.full((LANES,), -1e30, tl.float32)
    t_top = tl.full((LANES,), -1e30, tl.float32)
    s_sum = tl.zeros((LANES,), tl.float32)
    t_sum = tl.zeros((LANES,), tl.float32)
    weighed = tl.zeros((LANES,), tl.float32)
    for first in range(part * span, end, LANES * UNROLL):
        inside = first + places < end
        at = row * cols + first + places
        s = tl.load(student + at, inside, other=0.0).to(tl.float32) * inverse
        t = tl.load(teacher + at, inside, other=0.0).to(tl.float32) * inverse
        s_new = tl.maximum(s_top, tl.max(tl.where(inside, s, -1e30), axis=0))
        t_new = tl.maximum(t_top, tl.max(tl.where(inside, t, -1e30), axis=0))
        s_powers = tl.where(inside, tl.exp(s - s_new[None, :]), 0.0)
        t_powers = tl.where(inside, tl.exp(t - t_new[None, :]), 0.0)
        s_sum = s_sum * tl.exp(s_top - s_new) + tl.sum(s_powers, axis=0)
        keep = tl.exp(t_top - t_new)
        # Differences are of logits below their maxima, so that near ones do not cancel.
        weighed = (weighed - t_sum * ((t_new - t_top) - (s_new - s_top))) * keep
        below = (t - t_new[None, :]) - (s - s_new[None, :])
        weighed += tl.sum(t_powers * below, axis=0)
        t_sum = t_sum * keep + tl.sum(t_powers, axis=0)
        s_top, t_top = s_new, t_new
    s_all, t_all = tl.max(s_top), tl.max(t_top)
    keep = tl.exp(t_top - t_all)
    at = parts + (row * tl.num_programs(1) + part) * 5
    tl.store(at, s_all)
    tl.store(at + 1, tl.sum(s_sum * tl.exp(s_top - s_all)))
    tl.store(at + 2, t_all)
    tl.store(at + 3, tl.sum(t_sum * keep))
    tl.store(at + 4, tl.sum((weighed - t_sum * ((t_all - t_top) - (s_all - s_top))) * keep))


@triton.jit
def loss_kernel(parts, loss, rows, COUNT: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.arange(0, PARTS)[None, :]
    inside = (row < rows)[:, None] & (part < COUNT)
    at = parts + (row[:, None].to(tl.int64) * COUNT + part) * 5
    s_top = tl.load(at, inside, other=-1e30)
    t_top = tl.load(at + 2, inside, other=-1e30)
    s_all, t_all = tl.max(s_top, axis=1), tl.max(t_top, axis=1)
    keep = tl.exp(t_top - t_all[:, None])
    s_sum = tl.sum(tl.load(at + 1, inside, other=0.0) * tl.exp(s_top - s_all[:, None]), axis=1)
    t_sums = tl.load(at + 3, inside, other=0.0)
    t_sum = tl.sum(t_sums * keep, axis=1)
    shift = (t_all[:, None] - t_top) - (s_all[:, None] - s_top)
    weighed = tl.load(at + 4, inside, other=0.0)
    weighed = tl.sum((weighed - t_sums * shift) * keep, axis=1)
    found = weighed / t_sum + (tl.log(s_sum) - tl.log(t_sum))
    tl.store(loss + row, found, row < rows)


def kl_divergence(student, teacher, loss, temperature):
    rows, cols = student.shape
    step = LANES * UNROLL
    # Few rows are split, so that all multiprocessors have work.
    count = max(1, min(MAX_PARTS, triton.cdiv(1024, rows), triton.cdiv(cols, 4 * step)))
    span = triton.cdiv(triton.cdiv(cols, count), step) * step
    parts = torch.empty((rows, count, 5), dtype=torch.float32, device=student.device)
    part_kernel[(rows, count)](
        student, teacher, parts, cols, span, 1 / temperature,
        LANES=LANES, UNROLL=UNROLL, num_warps=4,
    )  # fmt: skip
    loss_kernel[(triton.cdiv(rows, 16),)](
        parts, loss, rows, COUNT=count, PARTS=triton.next_power_of_2(count), BLOCK=16, num_warps=1
    )
