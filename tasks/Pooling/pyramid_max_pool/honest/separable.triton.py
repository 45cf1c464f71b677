# honest: some planes a program; each pool takes maxima along rows, then along columns
import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def pyramid_kernel(
    x, rows_of, out, planes, channels, height, width, GROUP: tl.constexpr, BLOCK: tl.constexpr
):
    size = height * width
    first_plane = tl.program_id(0).to(tl.int64) * GROUP
    count = tl.minimum(planes - first_plane, GROUP) * size
    scratch = rows_of + first_plane * size
    for first in range(0, count, BLOCK):
        at = first + tl.arange(0, BLOCK)
        plane, place = first_plane + at // size, at % size
        target = out + (plane + plane // channels * 3 * channels) * size + place
        tl.store(target, tl.load(x + first_plane * size + at, at < count), at < count)
    tl.debug_barrier()
    for pool in tl.static_range(1, 4):
        for first in range(0, count, BLOCK):
            at = first + tl.arange(0, BLOCK)
            plane, place = first_plane + at // size, at % size
            col = place % width
            above = plane + (plane // channels * 3 + pool - 1) * channels
            source = out + above * size + place
            top = tl.load(source, at < count, other=float("-inf"))
            for shift in tl.static_range(-2, 3):
                if shift != 0:
                    inside = (at < count) & (col + shift >= 0) & (col + shift < width)
                    near = tl.load(source + shift, inside, other=float("-inf"))
                    top = tl.maximum(top, near)
            tl.store(scratch + at, top, at < count)
        tl.debug_barrier()
        for first in range(0, count, BLOCK):
            at = first + tl.arange(0, BLOCK)
            plane, place = first_plane + at // size, at % size
            row = place // width
            top = tl.load(scratch + at, at < count, other=float("-inf"))
            for shift in tl.static_range(-2, 3):
                if shift != 0:
                    inside = (at < count) & (row + shift >= 0) & (row + shift < height)
                    near = tl.load(scratch + at + shift * width, inside, other=float("-inf"))
                    top = tl.maximum(top, near)
            target = out + (plane + (plane // channels * 3 + pool) * channels) * size + place
            tl.store(target, top, at < count)
        tl.debug_barrier()


def pyramid_max_pool(x, out):
    batch, channels, height, width = x.shape
    rows_of = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    planes = batch * channels
    group = max(1, BLOCK // (height * width))
    pyramid_kernel[(triton.cdiv(planes, group),)](
        x, rows_of, out, planes, channels, height, width, GROUP=group, BLOCK=BLOCK, num_warps=4
    )
