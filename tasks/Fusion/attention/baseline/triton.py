"""Causal grouped-query attention in one pass over the keys (Dao, 2023), a program for a block of
queries of one head; IEEE products for float32.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)

# Queries and keys of a tile where tensors have 16 bits, which tensor cores multiply.
# arena: tune BLOCK_M 32 64 128
BLOCK_M = 128
# arena: tune BLOCK_N 32 64 128
BLOCK_N = 64
# arena: tune WARPS 4 8 16
WARPS = 8
# arena: tune STAGES 1 2 3
STAGES = 2

# Those of float32, which they do not.
# arena: tune WIDE_M 16 32 64
WIDE_M = 32
# arena: tune WIDE_N 16 32 64
WIDE_N = 32


@triton.jit
def visit(
    query,
    k,
    v,
    position,
    begin,
    context,
    stride,
    shift,
    total,
    sums,
    scale,
    MASKED: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """One block of keys: the maximum, the sum of powers and the weighted values so far, updated."""
    dims = tl.arange(0, DIM)
    keys = begin + tl.arange(0, BLOCK_N)
    places = keys.to(tl.int64) * stride
    key_places = places[None, :] + dims[:, None]
    value_places = places[:, None] + dims[None, :]
    if MASKED:
        key = tl.load(k + key_places, (keys < context)[None, :], other=0.0)
    else:
        key = tl.load(k + key_places)
    scores = tl.dot(query, key, input_precision="ieee") * scale
    if MASKED:
        scores = tl.where(keys[None, :] <= position[:, None], scores, float("-inf"))

    top = tl.maximum(shift, tl.max(scores, axis=1))
    powers = tl.exp2(scores - top[:, None])
    keep = tl.exp2(shift - top)
    total = total * keep + tl.sum(powers, axis=1)
    if MASKED:
        value = tl.load(v + value_places, (keys < context)[:, None], other=0.0)
    else:
        value = tl.load(v + value_places)
    sums = tl.dot(powers.to(value.dtype), value, sums * keep[:, None], input_precision="ieee")
    return top, total, sums


@triton.jit
def attention_kernel(
    q,
    k,
    v,
    out,
    tokens,
    context,
    heads,
    kv_heads,
    scale,
    DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    # The last queries see the most keys: they begin first.
    start = (tl.num_programs(1) - 1 - tl.program_id(1)) * BLOCK_M
    head = tl.program_id(0)
    kv_head = head // (heads // kv_heads)
    rows = start + tl.arange(0, BLOCK_M)
    position = context - tokens + rows
    inside = (rows < tokens)[:, None]
    places = (rows.to(tl.int64) * heads + head)[:, None] * DIM + tl.arange(0, DIM)[None, :]
    query = tl.load(q + places, inside, other=0.0)
    keys, values = k + kv_head * DIM, v + kv_head * DIM
    stride = kv_heads * DIM

    shift = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    sums = tl.zeros((BLOCK_M, DIM), tl.float32)
    # Up to here every query of the block sees every key; then masks are needed.
    first = context - tokens + start
    whole = (first + 1) // BLOCK_N * BLOCK_N
    end = tl.minimum(first + BLOCK_M, context)
    for begin in range(0, whole, BLOCK_N):
        shift, total, sums = visit(
            query, keys, values, position, begin, context, stride, shift, total, sums, scale,
            False, DIM, BLOCK_N,
        )  # fmt: skip
    for begin in range(whole, end, BLOCK_N):
        shift, total, sums = visit(
            query, keys, values, position, begin, context, stride, shift, total, sums, scale,
            True, DIM, BLOCK_N,
        )  # fmt: skip
    tl.store(out + places, sums / total[:, None], inside)


def attention(q, k, v, out):
    tokens, heads, dim = q.shape
    context, kv_heads, _ = k.shape
    wide = q.element_size() == 4
    block_m, block_n = (WIDE_M, WIDE_N) if wide else (BLOCK_M, BLOCK_N)
    block_m = min(block_m, max(16, triton.next_power_of_2(tokens)))
    attention_kernel[(heads, triton.cdiv(tokens, block_m))](
        q,
        k,
        v,
        out,
        tokens,
        context,
        heads,
        kv_heads,
        LOG2_E.value / dim**0.5,
        DIM=dim,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        num_warps=4 if wide or block_m < 128 else WARPS,
        num_stages=STAGES,
    )
