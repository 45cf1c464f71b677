"""Binary cross entropy of logits, partial sums by a fixed number of programs, then their total."""

import torch
import triton
import triton.language as tl

# Programs that share the tensor, and partial sums: a power of two.
# arena: tune PROGRAMS 128 256 512 1024
PROGRAMS = 256

# arena: tune BLOCK 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 2 4 8
WARPS = 4


@triton.jit
def log1p(x):
    # The quotient corrects for the rounding of 1 + x.
    y = 1 + x
    return tl.where(y == 1, x, tl.log(y) * (x / tl.where(y == 1, 1.0, y - 1)))


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + log1p(tl.exp(-tl.abs(x)))


@triton.jit
def bce_with_logits_partial_kernel(
    logits_ptr,
    target_ptr,
    partial_ptr,
    count,
    positive_weight,
    PROGRAMS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    lane = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(tl.program_id(0).to(tl.int64) * BLOCK, count, PROGRAMS * BLOCK):
        offsets = start + lane
        mask = offsets < count
        logits = tl.load(logits_ptr + offsets, mask, other=0.0).to(tl.float32)
        target = tl.load(target_ptr + offsets, mask, other=0)
        loss = tl.where(target, positive_weight * softplus(-logits), softplus(logits))
        sums += tl.where(mask, loss, 0.0)
    tl.store(partial_ptr + tl.program_id(0), tl.sum(sums))


@triton.jit
def bce_with_logits_kernel(partial_ptr, loss_ptr, count, PROGRAMS: tl.constexpr):
    total = tl.sum(tl.load(partial_ptr + tl.arange(0, PROGRAMS)))
    tl.store(loss_ptr, total / count)


def bce_with_logits(logits, target, loss, positive_weight):
    count = logits.numel()
    partial = torch.empty(PROGRAMS, dtype=torch.float32, device=logits.device)
    bce_with_logits_partial_kernel[(PROGRAMS,)](
        logits,
        target,
        partial,
        count,
        positive_weight,
        PROGRAMS=PROGRAMS,
        BLOCK=BLOCK,
        num_warps=WARPS,
    )
    bce_with_logits_kernel[(1,)](partial, loss, count, PROGRAMS=PROGRAMS)
