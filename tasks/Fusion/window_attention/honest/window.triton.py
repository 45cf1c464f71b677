# honest: a tile of queries a program, keys tile by tile; a float32 product is three of TF32
import triton
import triton.language as tl


@triton.jit
def rounded(x):
    """Round float32 to the eleven bits of TF32."""
    return ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)


@triton.jit
def parts_of(x):
    """Split float32 into two numbers of TF32, which miss half a unit of its last place at most."""
    first = rounded(x)
    return first, rounded(x - first)


@triton.jit
def product(a, b, total, TURN: tl.constexpr):
    """Add the product of `a` and `b`, or with TURN its transpose, the smallest terms first."""
    a1, a2 = parts_of(a)
    b1, b2 = parts_of(b)
    if TURN:
        b1, b2 = tl.trans(b1), tl.trans(b2)
    total = tl.dot(a2, b1, total, input_precision="tf32")
    total = tl.dot(a1, b2, total, input_precision="tf32")
    return tl.dot(a1, b1, total, input_precision="tf32")


@triton.jit
def window_kernel(
    q, k, v, bias, out, heads, tokens, scale,
    DIM: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    window = tl.program_id(0).to(tl.int64)
    start = window * tokens * DIM
    i = tl.program_id(1) * QUERIES + tl.arange(0, QUERIES)
    d = tl.arange(0, DIM)
    rows = (i < tokens)[:, None]
    query = tl.load(q + start + i[:, None] * DIM + d[None, :], rows, other=0.0)
    top = tl.full((QUERIES,), -1e30, tl.float32)
    below = tl.zeros((QUERIES,), tl.float32)
    total = tl.zeros((QUERIES, DIM), tl.float32)
    for first in range(0, tokens, KEYS):
        j = first + tl.arange(0, KEYS)
        cols, known = (j < tokens)[None, :], (j < tokens)[:, None]
        at = start + j[:, None] * DIM + d[None, :]
        key = tl.load(k + at, known, other=0.0)
        scores = product(query, key, tl.zeros((QUERIES, KEYS), tl.float32), TURN=True) * scale
        place = (window % heads * tokens + i[:, None]) * tokens + j[None, :]
        scores += tl.load(bias + place, rows & cols, other=0.0)
        scores = tl.where(cols, scores, -1e30)
        highest = tl.maximum(top, tl.max(scores, axis=1))
        powers = tl.exp(scores - highest[:, None])
        keep = tl.exp(top - highest)
        below = below * keep + tl.sum(powers, axis=1)
        value = tl.load(v + at, known, other=0.0)
        total = product(powers, value, total * keep[:, None], TURN=False)
        top = highest
    result = total / below[:, None]
    tl.store(out + start + i[:, None] * DIM + d[None, :], result, rows)


def window_attention(q, k, v, bias, out):
    windows, heads, tokens, dim = q.shape
    side = 64 if tokens > 32 else 16
    window_kernel[(windows * heads, triton.cdiv(tokens, side))](
        q, k, v, bias, out, heads, tokens, dim**-0.5,
        DIM=dim, QUERIES=side, KEYS=side, num_warps=4, num_stages=1,
    )  # fmt: skip
