"""Mean squared error, partial sums by a fixed number of programs, then their total."""

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
def mse_loss_partial_kernel(
    prediction_ptr, target_ptr, partial_ptr, count, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr
):
    lane = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(tl.program_id(0).to(tl.int64) * BLOCK, count, PROGRAMS * BLOCK):
        offsets = start + lane
        mask = offsets < count
        prediction = tl.load(prediction_ptr + offsets, mask, other=0.0).to(tl.float32)
        target = tl.load(target_ptr + offsets, mask, other=0.0).to(tl.float32)
        error = prediction - target
        sums += error * error
    tl.store(partial_ptr + tl.program_id(0), tl.sum(sums))


@triton.jit
def mse_loss_kernel(partial_ptr, loss_ptr, count, PROGRAMS: tl.constexpr):
    total = tl.sum(tl.load(partial_ptr + tl.arange(0, PROGRAMS)))
    tl.store(loss_ptr, total / count)


def mse_loss(prediction, target, loss):
    count = prediction.numel()
    partial = torch.empty(PROGRAMS, dtype=torch.float32, device=prediction.device)
    mse_loss_partial_kernel[(PROGRAMS,)](
        prediction, target, partial, count, PROGRAMS=PROGRAMS, BLOCK=BLOCK, num_warps=WARPS
    )
    mse_loss_kernel[(1,)](partial, loss, count, PROGRAMS=PROGRAMS)
