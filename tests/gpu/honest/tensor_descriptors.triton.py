# honest: tensor descriptors where rows are aligned to sixteen bytes, pointers elsewhere
import torch
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["rows", "cols"])
def described(x, out, rows, cols, scale, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, (rows, cols), (cols, 1), (1, BLOCK))
    target = tl.make_tensor_descriptor(out, (rows, cols), (cols, 1), (1, BLOCK))
    row = tl.program_id(0)
    total = tl.zeros((1, BLOCK), tl.float32)
    for first in range(0, cols, BLOCK):
        total += source.load((row, first))
    mean = tl.sum(total, 1) / cols
    for first in range(0, cols, BLOCK):
        target.store((row, first), (source.load((row, first)) - mean[:, None]) * scale)


@triton.jit(do_not_specialize=["cols"])
def pointed(x, out, cols, scale, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    places = tl.arange(0, BLOCK)
    values = tl.load(x + start + places, places < cols, 0.0)
    tl.store(out + start + places, (values - tl.sum(values, 0) / cols) * scale, places < cols)


def workspace(size, alignment, stream):
    return torch.empty(size, device=torch.device("cuda"), dtype=torch.int8)


def centred(x, out, scale):
    rows, cols = x.shape
    triton.set_allocator(workspace)
    if cols % 4 == 0:
        described[(rows,)](x, out, rows, cols, scale, BLOCK=256)
    else:
        pointed[(rows,)](x, out, cols, scale, BLOCK=1024)
