# honest: codes become numbers in registers; rows of float32 are split into two numbers of TF32
import torch
import triton
import triton.language as tl

PROGRAMS = 512


@triton.jit
def rounded(x):
    """Round float32 to the eleven bits of TF32."""
    return ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)


@triton.jit
def matmul_kernel(
    x, packed, exponents, out, m, n, blocks, per_part, TYPE: tl.constexpr, WIDE: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    col = (tl.program_id(1) * COLS + tl.arange(0, COLS)).to(tl.int64)
    part = tl.program_id(2)
    total = tl.zeros((ROWS, COLS), tl.float32)
    for first in range(part * per_part, tl.minimum(blocks, (part + 1) * per_part), BLOCKS):
        byte = first * 16 + tl.arange(0, 16 * BLOCKS)
        inside = (col < n)[:, None] & (byte < blocks * 16)[None, :]
        pairs = tl.load(packed + col[:, None] * (blocks * 16) + byte[None, :], inside, other=0)
        codes = tl.reshape(tl.join(pairs & 15, pairs >> 4), (COLS, 32 * BLOCKS)).to(tl.int32)
        place = first * 32 + tl.arange(0, 32 * BLOCKS)
        inside = (col < n)[:, None] & (place < blocks * 32)[None, :]
        power = tl.load(
            exponents + col[:, None] * blocks + (place // 32)[None, :], inside, other=117
        )
        # Sizes from 1 have an exponent; 0 and 0.5 are counted in halves.
        size = (((codes & 7) + 252) << 22).to(tl.float32, bitcast=True)
        size = tl.where((codes & 6) == 0, 0.5 * (codes & 1).to(tl.float32), size)
        size *= (power.to(tl.int32) << 23).to(tl.float32, bitcast=True)
        weights = tl.trans(tl.where((codes & 8) != 0, -size, size).to(TYPE))
        inside = (row < m)[:, None] & (place < blocks * 32)[None, :]
        values = tl.load(x + row[:, None] * (blocks * 32) + place[None, :], inside, other=0.0)
        if WIDE:  # half a unit of the last place is missed at most
            high = rounded(values)
            low = rounded(values - high)
            # Tensor cores cut off what they add, so that the long sum lies outside.
            some = tl.dot(low, weights, input_precision="tf32")
            total += tl.dot(high, weights, some, input_precision="tf32")
        else:
            total = tl.dot(values.to(TYPE), weights, total, input_precision="tf32")
    inside = (row < m)[:, None] & (col < n)[None, :]
    tl.store(out + (part * m + row)[:, None] * n + col[None, :], total, inside)


@triton.jit
def sum_kernel(parts, out, size, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    place = parts + at
    for _ in range(count):
        total += tl.load(place, at < size, other=0.0)
        place += size
    tl.store(out + at, total, at < size)


def mxfp4_matmul(x, packed, exponents, out):
    m, n = out.shape
    blocks = exponents.shape[1]
    rows = 16 if m <= 16 else (64 if m <= 64 else 128)
    cols = 64 if m <= 64 else 128
    tiles = triton.cdiv(m, rows) * triton.cdiv(n, cols)
    step = 2
    steps = triton.cdiv(blocks, step)
    per_part = triton.cdiv(steps, max(1, min(steps, PROGRAMS // tiles))) * step
    parts = triton.cdiv(blocks, per_part)
    whole = out
    if parts > 1:
        whole = torch.empty((parts, m, n), dtype=torch.float32, device=x.device)
    # Numbers of bfloat16 are exact in TF32, and so are all weights.
    matmul_kernel[(triton.cdiv(m, rows), triton.cdiv(n, cols), parts)](
        x, packed, exponents, whole, m, n, blocks, per_part,
        TYPE=tl.float16 if x.dtype == torch.float16 else tl.float32,
        WIDE=x.dtype == torch.float32,
        ROWS=rows, COLS=cols, BLOCKS=step, num_warps=4 if m <= 64 else 8,
    )  # fmt: skip
    if parts > 1:
        sum_kernel[(triton.cdiv(m * n, 512),)](whole, out, m * n, parts, BLOCK=512, num_warps=4)
