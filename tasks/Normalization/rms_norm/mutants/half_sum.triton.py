# mutant: adds the squares in float16
import triton
import triton.language as tl

BLOCK = 256

WARPS = 4


@triton.jit
def rms_norm_kernel(x, weight, out, cols, eps, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    offsets = tl.arange(0, BLOCK)

    squares = tl.zeros((BLOCK,), tl.float16)
    for first in range(0, cols, BLOCK):
        mask = first + offsets < cols
        values = tl.load(x + start + first + offsets, mask, other=0.0).to(tl.float32)
        squares += (values * values).to(tl.float16)
    scale = 1 / tl.sqrt(tl.sum(squares).to(tl.float32) / cols + eps)

    for first in range(0, cols, BLOCK):
        mask = first + offsets < cols
        values = tl.load(x + start + first + offsets, mask, other=0.0).to(tl.float32)
        weights = tl.load(weight + first + offsets, mask, other=0.0).to(tl.float32)
        tl.store(out + start + first + offsets, values * scale * weights, mask)


def rms_norm(x, weight, out, eps):
    rows, cols = x.shape
    rms_norm_kernel[(rows,)](x, weight, out, cols, eps, BLOCK=BLOCK, num_warps=WARPS)
