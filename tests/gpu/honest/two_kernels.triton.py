# honest: means into a workspace by one kernel, subtracted by another
import torch
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["cols"])
def average(x, means, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, BLOCK)
    tl.store(means + row, tl.sum(tl.load(x + row * cols + places, places < cols, 0.0), 0) / cols)


@triton.jit(do_not_specialize=["cols", "elements"])
def subtract(x, means, out, cols, elements, scale, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = places < elements
    mean = tl.load(means + places // cols, mask, 0.0)
    tl.store(out + places, (tl.load(x + places, mask, 0.0) - mean) * scale, mask)


def centred(x, out, scale):
    rows, cols = x.shape
    means = torch.empty(rows, device=x.device, dtype=torch.float32)
    average[(rows,)](x, means, cols, BLOCK=1024)
    subtract[(triton.cdiv(x.numel(), 512),)](x, means, out, cols, x.numel(), scale, BLOCK=512)
