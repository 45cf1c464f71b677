# honest: weights unpacked in registers; rows of float32 are split into two numbers of TF32
import torch
import triton
import triton.language as tl

PROGRAMS = 512


@triton.jit
def rounded(x):
    """Round float32 to the eleven bits of TF32."""
    return ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)


@triton.jit
def product(values, weights, total, WIDE: tl.constexpr):
    """Add a product; half a unit of the last place of float32 is missed at most."""
    if WIDE:
        high = rounded(values)
        low = rounded(values - high)
        total = tl.dot(low, weights, total, input_precision="tf32")
        return tl.dot(high, weights, total, input_precision="tf32")
    return tl.dot(values, weights, total, input_precision="tf32")


@triton.jit
def matmul_kernel(
    x, packed, exponents, zeros, out, m, n, groups, per_part,
    HALF: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    TYPE: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    part = tl.program_id(2)
    byte = tl.arange(0, HALF)
    length = groups * HALF
    wide = row.to(tl.int64)[:, None] * (2 * length)
    own = col.to(tl.int64)
    inside = (row < m)[:, None]
    total = tl.zeros((ROWS, COLS), tl.float32)
    for group in range(part * per_part, tl.minimum(groups, (part + 1) * per_part)):
        at = group * HALF + byte
        place = own[None, :] * length + at[:, None]
        pairs = tl.load(packed + place, (col < n)[None, :], other=0).to(tl.int32)
        power = tl.load(exponents + own * groups + group, col < n, other=0).to(tl.int32)
        scale = (power << 23).to(tl.float32, bitcast=True)
        zero = tl.load(zeros + own * groups + group, col < n, other=0).to(tl.int32)
        even = tl.load(x + wide + 2 * at[None, :], inside, other=0.0).to(TYPE)
        odd = tl.load(x + wide + 2 * at[None, :] + 1, inside, other=0.0).to(TYPE)
        low = ((pairs & 15) - zero[None, :]).to(tl.float32) * scale[None, :]
        high = ((pairs >> 4) - zero[None, :]).to(tl.float32) * scale[None, :]
        # Tensor cores cut off what they add, so that the long sum lies outside.
        some = product(even, low.to(TYPE), tl.zeros((ROWS, COLS), tl.float32), WIDE)
        total += product(odd, high.to(TYPE), some, WIDE)
    place = (part * m + row.to(tl.int64))[:, None] * n + own[None, :]
    tl.store(out + place, total, inside & (col < n)[None, :])


@triton.jit
def sum_kernel(parts, out, count, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for part in range(PARTS):
        total += tl.load(parts + part * count + at, at < count, other=0.0)
    tl.store(out + at, total, at < count)


def w4a16_matmul(x, packed, exponents, zeros, out):
    m, n = out.shape
    groups = exponents.shape[1]
    half = packed.shape[1] // groups
    rows = 16 if m <= 16 else (64 if m <= 64 else 128)
    cols = 32 if m <= 16 else 128
    tiles = triton.cdiv(m, rows) * triton.cdiv(n, cols)
    per_part = triton.cdiv(groups, max(1, min(groups, PROGRAMS // tiles)))
    parts = triton.cdiv(groups, per_part)
    whole = out
    if parts > 1:
        whole = torch.empty((parts, m, n), dtype=torch.float32, device=x.device)
    # Numbers of bfloat16 are exact in TF32, and so are all weights.
    matmul_kernel[(triton.cdiv(m, rows), triton.cdiv(n, cols), parts)](
        x, packed, exponents, zeros, whole, m, n, groups, per_part,
        HALF=half, ROWS=rows, COLS=cols,
        TYPE=tl.float16 if x.dtype == torch.float16 else tl.float32,
        WIDE=x.dtype == torch.float32, num_warps=4 if m <= 64 else 8,
    )  # fmt: skip
    if parts > 1:
        sum_kernel[(triton.cdiv(m * n, 512),)](whole, out, m * n, PARTS=parts, BLOCK=512)
