# honest: the maximum and the sum in a first pass over the keys, finished probabilities in a second
import triton
import triton.language as tl


@triton.jit
def scores_of(query, k, begin, context, position, stride, DIM: tl.constexpr, BLOCK_N: tl.constexpr):
    keys = begin + tl.arange(0, BLOCK_N)
    places = keys.to(tl.int64)[None, :] * stride + tl.arange(0, DIM)[:, None]
    key = tl.load(k + places, (keys < context)[None, :], other=0.0)
    scores = tl.dot(query, key, input_precision="ieee") / tl.sqrt(DIM * 1.0)
    return tl.where(keys[None, :] <= position[:, None], scores, float("-inf"))


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
    DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    head, kv_head = tl.program_id(0), tl.program_id(0) // (heads // kv_heads)
    rows = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    position = context - tokens + rows
    dims = tl.arange(0, DIM)
    places = (rows.to(tl.int64) * heads + head)[:, None] * DIM + dims[None, :]
    query = tl.load(q + places, (rows < tokens)[:, None], other=0.0)
    k += kv_head * DIM
    stride = kv_heads * DIM
    end = tl.minimum(context - tokens + (tl.program_id(1) + 1) * BLOCK_M, context)

    shift = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    for begin in range(0, end, BLOCK_N):
        scores = scores_of(query, k, begin, context, position, stride, DIM, BLOCK_N)
        top = tl.maximum(shift, tl.max(scores, axis=1))
        total = total * tl.exp(shift - top) + tl.sum(tl.exp(scores - top[:, None]), axis=1)
        shift = top

    sums = tl.zeros((BLOCK_M, DIM), tl.float32)
    for begin in range(0, end, BLOCK_N):
        scores = scores_of(query, k, begin, context, position, stride, DIM, BLOCK_N)
        shares = tl.exp(scores - shift[:, None]) / total[:, None]
        keys = begin + tl.arange(0, BLOCK_N)
        at = keys.to(tl.int64)[:, None] * stride + kv_head * DIM + dims[None, :]
        value = tl.load(v + at, (keys < context)[:, None], other=0.0)
        sums += tl.dot(shares.to(value.dtype), value, input_precision="ieee")
    tl.store(out + places, sums, (rows < tokens)[:, None])


def attention(q, k, v, out):
    tokens, heads, dim = q.shape
    context, kv_heads, _ = k.shape
    attention_kernel[(heads, triton.cdiv(tokens, 32))](
        q, k, v, out, tokens, context, heads, kv_heads, DIM=dim, BLOCK_M=32, BLOCK_N=64
    )
