# honest: maximum and sum in one loop, the sums rescaled whenever the maximum grows
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def softmax_kernel(x, out, cols, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    offsets = tl.arange(0, BLOCK)
    shift = tl.max(tl.load(x + start + tl.zeros((1,), tl.int32)).to(tl.float32), axis=0)
    total = 0.0
    for first in range(0, cols, BLOCK):
        mask = first + offsets < cols
        values = tl.load(x + start + first + offsets, mask, other=float("-inf")).to(tl.float32)
        top = tl.maximum(shift, tl.max(values, axis=0))
        total = total * tl.exp(shift - top) + tl.sum(tl.exp(values - top), axis=0)
        shift = top
    for first in range(0, cols, BLOCK):
        mask = first + offsets < cols
        values = tl.load(x + start + first + offsets, mask, other=float("-inf")).to(tl.float32)
        tl.store(out + start + first + offsets, tl.exp(values - shift) / total, mask)


def softmax(x, out):
    rows, cols = x.shape
    softmax_kernel[(rows,)](x, out, cols, BLOCK=BLOCK)
