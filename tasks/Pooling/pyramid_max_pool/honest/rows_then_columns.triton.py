# honest: maxima of 5, 9 and 13 numbers along rows, then along columns: pools in a row are one pool
import torch
import triton
import triton.language as tl


@triton.jit
def rows_kernel(x, out, maxima, count, channels, height, width, BLOCK: tl.constexpr):
    """Copy a plane, and store its maxima along rows of 5, 9 and 13 numbers."""
    plane, size = tl.program_id(0).to(tl.int64), height * width
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside, col = place < size, place % width
    source = x + plane * size + place
    top = tl.load(source, inside, other=0.0)
    tl.store(out + (plane + plane // channels * 3 * channels) * size + place, top, inside)
    for shift in tl.static_range(1, 7):
        left, right = inside & (col >= shift), inside & (col + shift < width)
        top = tl.maximum(top, tl.load(source - shift, left, other=float("-inf")))
        top = tl.maximum(top, tl.load(source + shift, right, other=float("-inf")))
        if shift % 2 == 0:
            tl.store(maxima + (shift // 2 - 1) * count + plane * size + place, top, inside)


@triton.jit
def columns_kernel(maxima, out, count, channels, height, width, BLOCK: tl.constexpr):
    """Store the maxima of a plane along columns, of those along rows."""
    plane, size = tl.program_id(0).to(tl.int64), height * width
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside, row = place < size, place // width
    for pool in tl.static_range(1, 4):
        source = maxima + (pool - 1) * count + plane * size + place
        top = tl.load(source, inside, other=0.0)
        for shift in tl.static_range(1, 2 * pool + 1):
            above, below = inside & (row >= shift), inside & (row + shift < height)
            top = tl.maximum(top, tl.load(source - shift * width, above, other=float("-inf")))
            top = tl.maximum(top, tl.load(source + shift * width, below, other=float("-inf")))
        target = out + (plane + (plane // channels * 3 + pool) * channels) * size + place
        tl.store(target, top, inside)


def pyramid_max_pool(x, out):
    batch, channels, height, width = x.shape
    maxima = torch.empty((3, *x.shape), dtype=x.dtype, device=x.device)
    block = min(1024, triton.next_power_of_2(height * width))
    grid = batch * channels, triton.cdiv(height * width, block)
    warps = max(1, block // 256)
    count = x.numel()
    rows_kernel[grid](x, out, maxima, count, channels, height, width, BLOCK=block, num_warps=warps)
    columns_kernel[grid](maxima, out, count, channels, height, width, BLOCK=block, num_warps=warps)
