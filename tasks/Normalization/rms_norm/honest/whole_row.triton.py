# honest: a whole row at once, in a block of the next power of two
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(x, weight, out, cols, eps, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    offsets = tl.arange(0, BLOCK)
    mask = offsets < cols
    values = tl.load(x + start + offsets, mask, other=0.0).to(tl.float32)
    weights = tl.load(weight + offsets, mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values) / cols + eps)
    tl.store(out + start + offsets, values * scale * weights, mask)


def rms_norm(x, weight, out, eps):
    rows, cols = x.shape
    block = triton.next_power_of_2(cols)
    warps = min(32, max(1, block // 512))
    rms_norm_kernel[(rows,)](x, weight, out, cols, eps, BLOCK=block, num_warps=warps)
