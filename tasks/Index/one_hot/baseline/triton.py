"""Smoothed one-hot rows, one program per block of elements."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def one_hot_kernel(labels_ptr, out_ptr, count, classes, smoothing, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    label = tl.load(labels_ptr + offsets // classes, mask, other=0)
    hit = tl.where(label == offsets % classes, 1 - smoothing, 0.0)
    tl.store(out_ptr + offsets, tl.where(label >= 0, hit + smoothing / classes, 0.0), mask)


def one_hot(labels, out, classes, smoothing):
    count = out.numel()
    one_hot_kernel[(triton.cdiv(count, BLOCK),)](
        labels, out, count, classes, smoothing, BLOCK=BLOCK, num_warps=WARPS
    )
