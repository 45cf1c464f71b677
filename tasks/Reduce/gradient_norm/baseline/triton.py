"""Gradient norm, partial sums of squares by a fixed number of programs, then their total."""

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
def gradient_norm_partial_kernel(
    gradient_ptr, partial_ptr, count, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr
):
    lane = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(tl.program_id(0).to(tl.int64) * BLOCK, count, PROGRAMS * BLOCK):
        offsets = start + lane
        mask = offsets < count
        gradient = tl.load(gradient_ptr + offsets, mask, other=0.0).to(tl.float32)
        sums += gradient * gradient
    tl.store(partial_ptr + tl.program_id(0), tl.sum(sums))


@triton.jit
def gradient_norm_kernel(partial_ptr, norm_ptr, factor_ptr, max_norm, PROGRAMS: tl.constexpr):
    total = tl.sum(tl.load(partial_ptr + tl.arange(0, PROGRAMS)))
    norm = tl.sqrt(total)
    tl.store(norm_ptr, norm)
    tl.store(factor_ptr, tl.minimum(max_norm / (norm + 1e-6), 1.0))


def gradient_norm(gradient, norm, factor, max_norm):
    count = gradient.numel()
    partial = torch.empty(PROGRAMS, dtype=torch.float32, device=gradient.device)
    gradient_norm_partial_kernel[(PROGRAMS,)](
        gradient, partial, count, PROGRAMS=PROGRAMS, BLOCK=BLOCK, num_warps=WARPS
    )
    gradient_norm_kernel[(1,)](partial, norm, factor, max_norm, PROGRAMS=PROGRAMS)
