# honest: one program per row that walks over it, with a base-2 exponential
import triton
import triton.language as tl

BLOCK = 512


@triton.jit
def swiglu_kernel(x, out, hidden, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    for first in range(0, hidden, BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        mask = offsets < hidden
        gate = tl.load(x + token * 2 * hidden + offsets, mask, other=0.0).to(tl.float32)
        up = tl.load(x + token * 2 * hidden + hidden + offsets, mask, other=0.0).to(tl.float32)
        power = tl.exp2(tl.abs(gate) * -1.4426950408889634)
        share = tl.where(gate < 0, power, 1.0) / (1 + power)
        tl.store(out + token * hidden + offsets, gate * share * up, mask)


def swiglu(x, out):
    tokens, hidden = out.shape
    swiglu_kernel[(tokens,)](x, out, hidden, BLOCK=BLOCK)
