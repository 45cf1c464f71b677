"""Decay and write gates, one program per block of elements."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
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
def decay_gate_kernel(
    a_ptr, b_ptr, a_log_ptr, dt_bias_ptr, decay_ptr, beta_ptr, count, heads, BLOCK: tl.constexpr
):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    a = tl.load(a_ptr + offsets, mask, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + offsets, mask, other=0.0).to(tl.float32)
    a_log = tl.load(a_log_ptr + offsets % heads, mask, other=0.0)
    dt_bias = tl.load(dt_bias_ptr + offsets % heads, mask, other=0.0)
    tl.store(decay_ptr + offsets, -tl.exp(a_log) * softplus(a + dt_bias), mask)
    tl.store(beta_ptr + offsets, tl.sigmoid(b), mask)


def decay_gate(a, b, a_log, dt_bias, decay, beta):
    count = decay.numel()
    heads = a.shape[1]
    decay_gate_kernel[(triton.cdiv(count, BLOCK),)](
        a, b, a_log, dt_bias, decay, beta, count, heads, BLOCK=BLOCK, num_warps=WARPS
    )
