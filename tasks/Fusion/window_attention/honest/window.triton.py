# honest: small windows share the bias in registers; a float32 product is three of TF32
import triton
import triton.language as tl

WINDOWS, SIDE = 4, 64


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


@triton.jit
def small_kernel(
    q, k, v, bias, out, windows, heads, tokens, scale,
    DIM: tl.constexpr, SIDE: tl.constexpr, WINDOWS: tl.constexpr,
):  # fmt: skip
    """Attend in some windows of one head, each of them a single tile."""
    head = tl.program_id(1)
    i, d = tl.arange(0, SIDE), tl.arange(0, DIM)
    rows, cols = (i < tokens)[:, None], (i < tokens)[None, :]
    place = (head * tokens + i[:, None]) * tokens + i[None, :]
    shift = tl.where(cols, tl.load(bias + place, rows & cols, other=0.0), -1e30)
    for turn in range(WINDOWS):
        window = tl.program_id(0) * WINDOWS + turn
        inside = rows & (window < windows)
        start = (window.to(tl.int64) * heads + head) * tokens * DIM
        at = start + i[:, None] * DIM + d[None, :]
        query, key = tl.load(q + at, inside, other=0.0), tl.load(k + at, inside, other=0.0)
        value = tl.load(v + at, inside, other=0.0)
        scores = product(query, key, tl.zeros((SIDE, SIDE), tl.float32), TURN=True)
        scores = scores * scale + shift
        powers = tl.exp(scores - tl.max(scores, axis=1)[:, None])
        total = product(powers, value, tl.zeros((SIDE, DIM), tl.float32), TURN=False)
        tl.store(out + at, total / tl.sum(powers, axis=1)[:, None], inside)


def window_attention(q, k, v, bias, out):
    windows, heads, tokens, dim = q.shape
    if tokens <= SIDE:
        side = max(16, triton.next_power_of_2(tokens))
        small_kernel[(triton.cdiv(windows, WINDOWS), heads)](
            q, k, v, bias, out, windows, heads, tokens, dim**-0.5,
            DIM=dim, SIDE=side, WINDOWS=WINDOWS, num_warps=4, num_stages=2,
        )  # fmt: skip
    else:
        window_kernel[(windows * heads, triton.cdiv(tokens, SIDE))](
            q, k, v, bias, out, heads, tokens, dim**-0.5,
            DIM=dim, QUERIES=SIDE, KEYS=SIDE, num_warps=4, num_stages=1,
        )  # fmt: skip
