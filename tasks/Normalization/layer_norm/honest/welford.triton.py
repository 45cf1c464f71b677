# honest: one pass for mean and variance, by merging the moments of blocks (Chan et al., 1979)
import triton
import triton.language as tl

BLOCK = 512


@triton.jit
def layer_norm_kernel(x, weight, bias, out, cols, eps, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    offsets = tl.arange(0, BLOCK)
    mean = 0.0
    squares = 0.0
    for first in range(0, cols, BLOCK):
        mask = first + offsets < cols
        count = tl.minimum(cols - first, BLOCK).to(tl.float32)
        values = tl.load(x + start + first + offsets, mask, other=0.0).to(tl.float32)
        block_mean = tl.sum(values) / count
        centred = tl.where(mask, values - block_mean, 0.0)
        step = block_mean - mean
        mean += step * count / (first + count)
        squares += tl.sum(centred * centred) + step * step * first * count / (first + count)
    scale = 1 / tl.sqrt(squares / cols + eps)
    for first in range(0, cols, BLOCK):
        mask = first + offsets < cols
        values = tl.load(x + start + first + offsets, mask, other=0.0).to(tl.float32)
        weights = tl.load(weight + first + offsets, mask, other=0.0).to(tl.float32)
        shifts = tl.load(bias + first + offsets, mask, other=0.0).to(tl.float32)
        tl.store(out + start + first + offsets, (values - mean) * scale * weights + shifts, mask)


def layer_norm(x, weight, bias, out, eps):
    rows, cols = x.shape
    layer_norm_kernel[(rows,)](x, weight, bias, out, cols, eps, BLOCK=BLOCK)
