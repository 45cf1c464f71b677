"""SwiGLU, one program per block of one row's result."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def swiglu_kernel(x, out, hidden, BLOCK: tl.constexpr):
    blocks = tl.cdiv(hidden, BLOCK)
    token = (tl.program_id(0) // blocks).to(tl.int64)
    offsets = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < hidden
    gate = tl.load(x + token * 2 * hidden + offsets, mask, other=0.0).to(tl.float32)
    up = tl.load(x + token * 2 * hidden + hidden + offsets, mask, other=0.0).to(tl.float32)
    tl.store(out + token * hidden + offsets, gate / (1 + tl.exp(-gate)) * up, mask)


def swiglu(x, out):
    tokens, hidden = out.shape
    block = min(BLOCK, triton.next_power_of_2(hidden))
    swiglu_kernel[(tokens * triton.cdiv(hidden, block),)](
        x, out, hidden, BLOCK=block, num_warps=WARPS
    )
