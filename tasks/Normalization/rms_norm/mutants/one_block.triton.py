# mutant: looks at the first block of a row only for its squares
# expect: WRONG_VALUES
import triton
import triton.language as tl

BLOCK = 256

WARPS = 4


@triton.jit
def rms_norm_kernel(x, weight, out, cols, eps, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    offsets = tl.arange(0, BLOCK)

    squares = tl.zeros((BLOCK,), tl.float32)
    values = tl.load(x + start + offsets, offsets < cols, other=0.0).to(tl.float32)
    squares += values * values
    scale = 1 / tl.sqrt(tl.sum(squares) / cols + eps)

    for first in range(0, cols, BLOCK):
        mask = first + offsets < cols
        values = tl.load(x + start + first + offsets, mask, other=0.0).to(tl.float32)
        weights = tl.load(weight + first + offsets, mask, other=0.0).to(tl.float32)
        tl.store(out + start + first + offsets, values * scale * weights, mask)


def rms_norm(x, weight, out, eps):
    rows, cols = x.shape
    rms_norm_kernel[(rows,)](x, weight, out, cols, eps, BLOCK=BLOCK, num_warps=WARPS)
