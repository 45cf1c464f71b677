"""Adaptive average pooling, one program per block of results, which walk as far as the largest
bin.
"""

import triton
import triton.language as tl

# arena: tune BLOCK 64 128 256 512
BLOCK = 128

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def adaptive_avg_pool2d_kernel(x_ptr, out_ptr, count, height, width, bins, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    out_col = offsets % bins
    out_row = offsets // bins % bins
    plane = offsets // (bins * bins)
    top = out_row * height // bins
    left = out_col * width // bins
    bottom = ((out_row + 1) * height + bins - 1) // bins
    right = ((out_col + 1) * width + bins - 1) // bins

    total = tl.zeros((BLOCK,), tl.float32)
    for dy in range((height + bins - 1) // bins + 1):
        for dx in range((width + bins - 1) // bins + 1):
            row = top + dy
            col = left + dx
            valid = mask & (row < bottom) & (col < right)
            place = (plane * height + row) * width + col
            total += tl.load(x_ptr + place, valid, other=0.0).to(tl.float32)
    area = ((bottom - top) * (right - left)).to(tl.float32)
    tl.store(out_ptr + offsets, total / area, mask)


def adaptive_avg_pool2d(x, out, bins):
    count = out.numel()
    height, width = x.shape[1:]
    adaptive_avg_pool2d_kernel[(triton.cdiv(count, BLOCK),)](
        x, out, count, height, width, bins, BLOCK=BLOCK, num_warps=WARPS
    )
