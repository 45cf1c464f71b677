"""GEGLU, one program per block of results."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def geglu_kernel(x_ptr, out_ptr, count, hidden, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    start = offsets // hidden * 2 * hidden + offsets % hidden
    value = tl.load(x_ptr + start, mask, other=0.0).to(tl.float32)
    gate = tl.load(x_ptr + start + hidden, mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, value * 0.5 * gate * (1 + tl.erf(gate * 0.7071067811865476)), mask)


def geglu(x, out):
    count = out.numel()
    hidden = out.shape[1]
    geglu_kernel[(triton.cdiv(count, BLOCK),)](x, out, count, hidden, BLOCK=BLOCK, num_warps=WARPS)
