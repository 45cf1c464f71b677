# honest: the context split among programs, and numbers of float32 into two of TF32
import torch
import triton
import triton.language as tl

BLOCK = 64
PROGRAMS = 1024
MAX_PARTS = 64


@triton.jit
def rounded(x):
    """Round float32 to the eleven bits of TF32."""
    return ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)


@triton.jit
def product(a, b, WIDE: tl.constexpr):
    """Return a product with `b`, whose numbers are exact in TF32; with WIDE `a` is float32."""
    if WIDE:
        high = rounded(a)
        some = tl.dot(rounded(a - high), b, input_precision="tf32")
        return tl.dot(high, b, some, input_precision="tf32")
    return tl.dot(a, b, input_precision="tf32")


@triton.jit
def part_kernel(
    q, keys, key_scales, values, value_scales, sums_of, bounds, group, context, span, dim, scale,
    MEMBERS: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    head, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    member, d = tl.arange(0, MEMBERS), tl.arange(0, DIM)
    wanted = (member < group)[:, None] & (d < dim)[None, :]
    at = (head * group + member)[:, None] * dim + d[None, :]
    # Numbers of 16 bits, and those of int8, are exact in TF32.
    query = tl.load(q + at, wanted, other=0.0).to(tl.float32)
    top = tl.full((MEMBERS,), -1e30, tl.float32)
    total = tl.zeros((MEMBERS,), tl.float32)
    sums = tl.zeros((MEMBERS, DIM), tl.float32)
    end = tl.minimum(context, (part + 1) * span)
    for first in range(part * span, end, BLOCK):
        token = first + tl.arange(0, BLOCK)
        inside = token < end
        place = head * context + token
        cell = place[:, None] * dim + d[None, :]
        known = inside[:, None] & (d < dim)[None, :]
        key = tl.load(keys + cell, known, other=0).to(tl.float32)
        scales = tl.load(key_scales + place, inside, other=0.0) * scale
        scores = product(query, tl.trans(key), WIDE) * scales[None, :]
        scores = tl.where(inside[None, :], scores, -1e30)
        highest = tl.maximum(top, tl.max(scores, axis=1))
        powers = tl.where(inside[None, :], tl.exp(scores - highest[:, None]), 0.0)
        keep = tl.exp(top - highest)
        total = total * keep + tl.sum(powers, axis=1)
        weights = powers * tl.load(value_scales + place, inside, other=0.0)[None, :]
        value = tl.load(values + cell, known, other=0).to(tl.float32)
        sums = sums * keep[:, None] + product(weights, value, WIDE)
        top = highest
    at = (head * tl.num_programs(1) + part) * MEMBERS + member
    tl.store(sums_of + at[:, None] * DIM + d[None, :], sums)
    tl.store(bounds + at * 2, top)
    tl.store(bounds + at * 2 + 1, total)


@triton.jit
def join_kernel(
    sums_of, bounds, out, group, dim, COUNT: tl.constexpr, PARTS: tl.constexpr,
    MEMBERS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    head, member = tl.program_id(0).to(tl.int64), tl.program_id(1)
    part, d = tl.arange(0, PARTS), tl.arange(0, DIM)
    at = (head * COUNT + part) * MEMBERS + member
    tops = tl.load(bounds + at * 2, part < COUNT, other=-1e30)
    keep = tl.exp(tops - tl.max(tops))
    total = tl.sum(tl.load(bounds + at * 2 + 1, part < COUNT, other=0.0) * keep)
    sums = tl.load(sums_of + at[:, None] * DIM + d[None, :], (part < COUNT)[:, None], other=0.0)
    result = tl.sum(sums * keep[:, None], axis=0) / total
    tl.store(out + (head * group + member) * dim + d, result, d < dim)


def int8_cache_attention(q, keys, key_scales, values, value_scales, out):
    batch, kv_heads, context, dim = keys.shape
    group = q.shape[1] // kv_heads
    heads, members, padded = batch * kv_heads, 16, triton.next_power_of_2(dim)
    count = max(1, min(MAX_PARTS, triton.cdiv(PROGRAMS, heads), triton.cdiv(context, 2 * BLOCK)))
    span = triton.cdiv(triton.cdiv(context, count), BLOCK) * BLOCK
    count = triton.cdiv(context, span)
    sums = torch.empty((heads, count, members, padded), dtype=torch.float32, device=q.device)
    bounds = torch.empty((heads, count, members, 2), dtype=torch.float32, device=q.device)
    part_kernel[(heads, count)](
        q, keys, key_scales, values, value_scales, sums, bounds, group, context, span, dim,
        dim**-0.5, MEMBERS=members, DIM=padded, BLOCK=BLOCK,
        WIDE=q.dtype == torch.float32, num_warps=4,
    )  # fmt: skip
    join_kernel[(heads, group)](
        sums, bounds, out, group, dim, COUNT=count, PARTS=triton.next_power_of_2(count),
        MEMBERS=members, DIM=padded, num_warps=4,
    )  # fmt: skip
