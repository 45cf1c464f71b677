# mutant: takes gates and ups as neighbours, not as halves
# expect: WRONG_VALUES
import triton
import triton.language as tl

BLOCK = 256

WARPS = 4


@triton.jit
def swiglu_kernel(x, out, hidden, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    offsets = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < hidden
    gate = tl.load(x + token * 2 * hidden + 2 * offsets, mask, other=0.0).to(tl.float32)
    up = tl.load(x + token * 2 * hidden + 2 * offsets + 1, mask, other=0.0).to(tl.float32)
    tl.store(out + token * hidden + offsets, gate / (1 + tl.exp(-gate)) * up, mask)


def swiglu(x, out):
    tokens, hidden = out.shape
    swiglu_kernel[(tokens, triton.cdiv(hidden, BLOCK))](
        x, out, hidden, BLOCK=BLOCK, num_warps=WARPS
    )
