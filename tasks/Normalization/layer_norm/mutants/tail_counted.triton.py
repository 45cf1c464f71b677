# mutant: counts the masked tail of the last block among the deviations
# expect: WRONG_VALUES
import triton
import triton.language as tl

BLOCK = 512


@triton.jit
def layer_norm_kernel(x, weight, bias, out, cols, eps, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    offsets = tl.arange(0, BLOCK)

    sums = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, cols, BLOCK):
        mask = first + offsets < cols
        sums += tl.load(x + start + first + offsets, mask, other=0.0).to(tl.float32)
    mean = tl.sum(sums) / cols

    squares = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, cols, BLOCK):
        mask = first + offsets < cols
        values = tl.load(x + start + first + offsets, mask, other=0.0).to(tl.float32)
        centred = values - mean
        squares += centred * centred
    scale = 1 / tl.sqrt(tl.sum(squares) / cols + eps)

    for first in range(0, cols, BLOCK):
        mask = first + offsets < cols
        values = tl.load(x + start + first + offsets, mask, other=0.0).to(tl.float32)
        weights = tl.load(weight + first + offsets, mask, other=0.0).to(tl.float32)
        shifts = tl.load(bias + first + offsets, mask, other=0.0).to(tl.float32)
        tl.store(out + start + first + offsets, (values - mean) * scale * weights + shifts, mask)


def layer_norm(x, weight, bias, out, eps):
    rows, cols = x.shape
    layer_norm_kernel[(rows,)](x, weight, bias, out, cols, eps, BLOCK=BLOCK)
