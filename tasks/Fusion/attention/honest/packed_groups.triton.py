# honest: the queries of a group share a block, and with it every load of their keys and values
import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    q,
    k,
    v,
    out,
    tokens,
    context,
    kv_heads,
    group,
    scale,
    DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    kv_head = tl.program_id(1)
    # A row is a token and one of the heads that share their keys.
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    token = rows // group
    dims = tl.arange(0, DIM)
    inside = (rows < tokens * group)[:, None]
    head = kv_head * group + rows % group
    places = (token.to(tl.int64) * kv_heads * group + head)[:, None] * DIM + dims[None, :]
    query = tl.load(q + places, inside, other=0.0)

    shift = tl.full((BLOCK_M,), -1e30, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    sums = tl.zeros((BLOCK_M, DIM), tl.float32)
    last = (tl.program_id(0) * BLOCK_M + BLOCK_M - 1) // group
    for begin in range(0, tl.minimum(context - tokens + last + 1, context), BLOCK_N):
        keys = begin + tl.arange(0, BLOCK_N)
        at = (keys.to(tl.int64) * kv_heads + kv_head)[:, None] * DIM + dims[None, :]
        key = tl.load(k + at, (keys < context)[:, None], other=0.0)
        value = tl.load(v + at, (keys < context)[:, None], other=0.0)
        scores = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
        seen = keys[None, :] <= (context - tokens + token)[:, None]
        top = tl.maximum(shift, tl.max(tl.where(seen, scores, -1e30), axis=1))
        powers = tl.where(seen, tl.exp(scores - top[:, None]), 0.0)
        keep = tl.exp(shift - top)
        total = total * keep + tl.sum(powers, axis=1)
        sums = sums * keep[:, None]
        sums += tl.dot(powers.to(value.dtype), value, input_precision="ieee")
        shift = top
    tl.store(out + places, sums / total[:, None], inside)


def attention(q, k, v, out):
    tokens, heads, dim = q.shape
    context, kv_heads, _ = k.shape
    group = heads // kv_heads
    block_m = min(64, max(16, triton.next_power_of_2(tokens * group)))
    attention_kernel[(triton.cdiv(tokens * group, block_m), kv_heads)](
        q,
        k,
        v,
        out,
        tokens,
        context,
        kv_heads,
        group,
        1 / dim**0.5,
        DIM=dim,
        BLOCK_M=block_m,
        BLOCK_N=32,
        num_stages=2,
    )
