"""Attention over a paged cache in one pass, a program for the queries that share a head of keys of
one sequence; IEEE products for float32.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)

# Tokens of a tile, from as many pages as they lie in.
# arena: tune BLOCK 16 32 64 128
BLOCK = 64
# arena: tune WARPS 2 4 8
WARPS = 4
# arena: tune STAGES 1 2 3 4
STAGES = 2


@triton.jit
def decode_kernel(
    q,
    k_cache,
    v_cache,
    block_tables,
    lengths,
    out,
    kv_heads,
    group,
    pages,
    page_size,
    scale,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    sequence, kv_head = tl.program_id(0), tl.program_id(1)
    length = tl.load(lengths + sequence)
    table = block_tables + sequence.to(tl.int64) * pages
    dims = tl.arange(0, DIM)
    # A tile of a product has 16 rows at least: those past the group are zeros.
    member = tl.arange(0, GROUP)
    first = (sequence.to(tl.int64) * kv_heads + kv_head) * group
    places = (first + member)[:, None] * DIM + dims[None, :]
    inside = (member < group)[:, None]
    query = tl.load(q + places, inside, other=0.0)

    shift = tl.full((GROUP,), float("-inf"), tl.float32)
    total = tl.zeros((GROUP,), tl.float32)
    sums = tl.zeros((GROUP, DIM), tl.float32)
    for begin in range(0, length, BLOCK):
        token = begin + tl.arange(0, BLOCK)
        valid = token < length
        page = tl.load(table + token // page_size, valid, other=0).to(tl.int64)
        row = ((page * page_size + token % page_size) * kv_heads + kv_head) * DIM
        key = tl.load(k_cache + row[None, :] + dims[:, None], valid[None, :], other=0.0)
        scores = tl.dot(query, key, input_precision="ieee") * scale
        scores = tl.where(valid[None, :], scores, float("-inf"))
        top = tl.maximum(shift, tl.max(scores, axis=1))
        powers = tl.exp2(scores - top[:, None])
        keep = tl.exp2(shift - top)
        total = total * keep + tl.sum(powers, axis=1)
        value = tl.load(v_cache + row[:, None] + dims[None, :], valid[:, None], other=0.0)
        sums = tl.dot(powers.to(value.dtype), value, sums * keep[:, None], input_precision="ieee")
        shift = top
    tl.store(out + places, sums / total[:, None], inside)


def attention_decode(q, k_cache, v_cache, block_tables, lengths, out):
    sequences, heads, dim = q.shape
    page_size, kv_heads = k_cache.shape[1], k_cache.shape[2]
    decode_kernel[(sequences, kv_heads)](
        q,
        k_cache,
        v_cache,
        block_tables,
        lengths,
        out,
        kv_heads,
        heads // kv_heads,
        block_tables.shape[1],
        page_size,
        LOG2_E.value / dim**0.5,
        GROUP=max(16, triton.next_power_of_2(heads // kv_heads)),
        DIM=dim,
        BLOCK=BLOCK if q.element_size() == 2 else min(BLOCK, 32),
        num_warps=WARPS,
        num_stages=STAGES,
    )
