# honest: maximum, sum of exponentials and quotients, each in a loop
import triton
import triton.language as tl

BLOCK = 256

WARPS = 4


@triton.jit
def softmax_kernel(x, out, cols, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    offsets = tl.arange(0, BLOCK)

    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    for first in range(0, cols, BLOCK):
        mask = first + offsets < cols
        values = tl.load(x + start + first + offsets, mask, other=float("-inf"))
        best = tl.maximum(best, values.to(tl.float32))
    shift = tl.max(best, axis=0)

    sums = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, cols, BLOCK):
        mask = first + offsets < cols
        values = tl.load(x + start + first + offsets, mask, other=float("-inf"))
        sums += tl.exp(values.to(tl.float32) - shift)
    total = tl.sum(sums, axis=0)

    for first in range(0, cols, BLOCK):
        mask = first + offsets < cols
        values = tl.load(x + start + first + offsets, mask, other=float("-inf"))
        tl.store(out + start + first + offsets, tl.exp(values.to(tl.float32) - shift) / total, mask)


def softmax(x, out):
    rows, cols = x.shape
    softmax_kernel[(rows,)](x, out, cols, BLOCK=BLOCK, num_warps=WARPS)
