"""Clamped SwiGLU of gates and values that alternate, one program per block of results."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def clamped_swiglu_kernel(x_ptr, out_ptr, count, alpha, limit, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    gate = tl.load(x_ptr + 2 * offsets, mask, other=0.0).to(tl.float32)
    gate = tl.minimum(gate, limit)
    value = tl.load(x_ptr + 2 * offsets + 1, mask, other=0.0).to(tl.float32)
    value = tl.minimum(tl.maximum(value, -limit), limit)
    tl.store(out_ptr + offsets, (value + 1) * gate * tl.sigmoid(alpha * gate), mask)


def clamped_swiglu(x, out, alpha, limit):
    count = out.numel()
    clamped_swiglu_kernel[(triton.cdiv(count, BLOCK),)](
        x, out, count, alpha, limit, BLOCK=BLOCK, num_warps=WARPS
    )
