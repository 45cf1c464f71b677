# honest: a stable counting sort: blocks are counted, then sorted, and experts scan over blocks
import torch
import triton
import triton.language as tl

BLOCK = 1024
LANES = 16
STEP = 128


@triton.jit
def count_kernel(assigned, counts, firsts, slots, experts, BLOCK: tl.constexpr, BINS: tl.constexpr):
    """Count the slots of each expert in a block, and those of all experts before it."""
    block = tl.program_id(0)
    slot = block * BLOCK + tl.arange(0, BLOCK)
    expert = tl.load(assigned + slot, slot < slots, other=0).to(tl.int32)
    found = tl.histogram(tl.where(slot < slots, expert, experts), BINS)
    at = block * BINS + tl.arange(0, BINS)
    tl.store(counts + at, found)
    tl.store(firsts + at, tl.cumsum(found, axis=0) - found)


@triton.jit
def scan_kernel(
    counts, totals, blocks, BINS: tl.constexpr, LANES: tl.constexpr, STEP: tl.constexpr
):
    """Replace the counts of some experts by those of earlier blocks."""
    expert = tl.program_id(0) * LANES + tl.arange(0, LANES)
    total = tl.zeros((LANES,), tl.int32)
    for first in range(0, blocks, STEP):
        block = first + tl.arange(0, STEP)
        at = counts + block[:, None] * BINS + expert[None, :]
        inside = (block < blocks)[:, None] & (expert < BINS)[None, :]
        found = tl.load(at, inside, other=0)
        tl.store(at, total[None, :] + tl.cumsum(found, axis=0) - found, inside)
        total += tl.sum(found, axis=0)
    tl.store(totals + expert, total, expert < BINS)


@triton.jit
def start_kernel(totals, starts, experts, BINS: tl.constexpr):
    expert = tl.arange(0, BINS)
    total = tl.load(totals + expert)
    first = tl.cumsum(total, axis=0) - total
    tl.store(starts + expert, first.to(tl.int64), expert <= experts)


@triton.jit
def place_kernel(
    assigned, earlier, firsts, starts, order, slots, experts,
    BLOCK: tl.constexpr, BINS: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    own = tl.arange(0, BLOCK)
    slot = block * BLOCK + own
    expert = tl.load(assigned + slot, slot < slots, other=0).to(tl.int32)
    ordered = tl.sort(tl.where(slot < slots, expert, experts) * BLOCK + own)
    expert, slot = ordered // BLOCK, block * BLOCK + ordered % BLOCK
    inside = slot < slots
    place = tl.load(starts + expert, inside, other=0) + own
    place += tl.load(earlier + block * BINS + expert, inside, other=0)
    place -= tl.load(firsts + block * BINS + expert, inside, other=0)
    tl.store(order + place, slot.to(tl.int64), inside)


def moe_sort_tokens(assigned, order, starts, experts):
    slots = assigned.shape[0]
    blocks = triton.cdiv(slots, BLOCK)
    bins = triton.next_power_of_2(experts + 1)
    counts, firsts = torch.empty((2, blocks, bins), dtype=torch.int32, device=assigned.device)
    totals = torch.empty((bins,), dtype=torch.int32, device=assigned.device)
    count_kernel[(blocks,)](
        assigned, counts, firsts, slots, experts, BLOCK=BLOCK, BINS=bins, num_warps=4
    )
    scan_kernel[(triton.cdiv(bins, LANES),)](
        counts, totals, blocks, BINS=bins, LANES=LANES, STEP=STEP, num_warps=4
    )
    start_kernel[(1,)](totals, starts, experts, BINS=bins, num_warps=4)
    place_kernel[(blocks,)](
        assigned, counts, firsts, starts, order, slots, experts,
        BLOCK=BLOCK, BINS=bins, num_warps=4,
    )  # fmt: skip
