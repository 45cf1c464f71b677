# honest: a whole row at once, in a block of the next power of two
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, out, cols, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    offsets = tl.arange(0, BLOCK)
    mask = offsets < cols
    values = tl.load(x + start + offsets, mask, other=float("-inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + start + offsets, powers / tl.sum(powers, axis=0), mask)


def softmax(x, out):
    rows, cols = x.shape
    block = triton.next_power_of_2(cols)
    warps = min(32, max(1, block // 512))
    softmax_kernel[(rows,)](x, out, cols, BLOCK=block, num_warps=warps)
