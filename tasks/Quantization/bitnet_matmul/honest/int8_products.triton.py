# honest: fields of a byte are unpacked in registers for int8 products; few rows split the sum
import torch
import triton
import triton.language as tl

PROGRAMS = 512


@triton.jit
def matmul_kernel(
    x, x_scales, packed, scales, out, m, n, length, per_part,
    SPLIT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, BYTES: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    part = tl.program_id(2)
    own = row.to(tl.int64)
    total = tl.zeros((ROWS, COLS), tl.int32)
    for first in range(part * per_part, tl.minimum(length, (part + 1) * per_part), BYTES):
        byte = first + tl.arange(0, BYTES)
        inside = (col < n)[:, None] & (byte < length)[None, :]
        fields = tl.load(
            packed + col.to(tl.int64)[:, None] * length + byte[None, :], inside, other=0
        )
        # The last axis of a join is the lowest bit of a field's number.
        even = tl.join(fields & 3, (fields >> 4) & 3)
        odd = tl.join((fields >> 2) & 3, fields >> 6)
        weights = (tl.reshape(tl.join(even, odd), (COLS, 4 * BYTES)).to(tl.int32) - 1).to(tl.int8)
        place = 4 * first + tl.arange(0, 4 * BYTES)
        inside = (row < m)[:, None] & (place < 4 * length)[None, :]
        values = tl.load(x + own[:, None] * (4 * length) + place[None, :], inside, other=0)
        total = tl.dot(values, tl.trans(weights), total, out_dtype=tl.int32)
    inside = (row < m)[:, None] & (col < n)[None, :]
    if SPLIT:
        tl.store(out + (part * m + own)[:, None] * n + col[None, :], total, inside)
    else:
        scale = tl.load(x_scales + own, row < m, other=0.0)[:, None]
        scale = scale * tl.load(scales + col, col < n, other=0.0)[None, :]
        tl.store(out + own[:, None] * n + col[None, :], total.to(tl.float32) * scale, inside)


@triton.jit
def sum_kernel(parts, x_scales, scales, out, m, n, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < m * n
    total = tl.zeros((BLOCK,), tl.int32)
    place = parts + at
    for _ in range(count):
        total += tl.load(place, inside, other=0)
        place += m * n
    scale = tl.load(x_scales + at // n, inside, other=0.0)
    scale *= tl.load(scales + at % n, inside, other=0.0)
    tl.store(out + at, total.to(tl.float32) * scale, inside)


def bitnet_matmul(x, x_scales, packed, scales, out):
    m, n = out.shape
    length = packed.shape[1]
    rows = 16 if m <= 16 else (64 if m <= 64 else 128)
    cols = 64 if m <= 64 else 128
    step = 64 if m <= 16 else 32
    tiles = triton.cdiv(m, rows) * triton.cdiv(n, cols)
    steps = triton.cdiv(length, step)
    per_part = triton.cdiv(steps, max(1, min(steps, PROGRAMS // tiles))) * step
    parts = triton.cdiv(length, per_part)
    whole = out
    if parts > 1:
        whole = torch.empty((parts, m, n), dtype=torch.int32, device=x.device)
    matmul_kernel[(triton.cdiv(m, rows), triton.cdiv(n, cols), parts)](
        x, x_scales, packed, scales, whole, m, n, length, per_part,
        SPLIT=parts > 1, ROWS=rows, COLS=cols, BYTES=step, num_warps=4 if m <= 64 else 8,
    )  # fmt: skip
    if parts > 1:
        sum_kernel[(triton.cdiv(m * n, 512),)](
            whole, x_scales, scales, out, m, n, parts, BLOCK=512, num_warps=4
        )
