# honest: a state is carried from chunk to chunk; a float32 product is three of TF32
import torch
import triton
import triton.language as tl

CHUNK = 64


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
def state_kernel(
    k, v, decay, states, tokens, key_dim, value_dim, chunks,
    CHUNK: tl.constexpr, WIDTH: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """Store what tokens before each chunk add up to, decayed to its first token, by values."""
    head = tl.program_id(2).to(tl.int64)
    w = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    d = tl.program_id(1) * VALUES + tl.arange(0, VALUES)
    r = tl.arange(0, CHUNK)
    logarithm = tl.log2(tl.load(decay + head))
    weights = tl.exp2((CHUNK - r).to(tl.float32) * logarithm)
    whole = tl.exp2(CHUNK * logarithm)
    inside = (d < value_dim)[:, None] & (w < key_dim)[None, :]
    total = tl.zeros((VALUES, WIDTH), tl.float32)
    for chunk in range(chunks):
        at = ((head * chunks + chunk) * value_dim + d)[:, None] * key_dim + w[None, :]
        tl.store(states + at, total, inside)
        token = chunk * CHUNK + r
        known = (token < tokens)[:, None]
        row = (head * tokens + token)[:, None]
        keys = tl.load(k + row * key_dim + w[None, :], known & (w < key_dim)[None, :], other=0.0)
        mask = known & (d < value_dim)[None, :]
        values = tl.load(v + row * value_dim + d[None, :], mask, other=0.0)
        total = total * whole + product(tl.trans(values), keys * weights[:, None], TURN=False)


@triton.jit
def output_kernel(
    q, k, v, decay, states, out, tokens, value_dim,
    KEY_DIM: tl.constexpr, CHUNK: tl.constexpr, WIDTH: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    chunk, head = tl.program_id(0), tl.program_id(2).to(tl.int64)
    d = tl.program_id(1) * VALUES + tl.arange(0, VALUES)
    r, w = tl.arange(0, CHUNK), tl.arange(0, WIDTH)
    logarithm = tl.log2(tl.load(decay + head))
    token = chunk * CHUNK + r
    known = (token < tokens)[:, None]
    row = (head * tokens + token)[:, None]
    state_at = ((head * tl.num_programs(0) + chunk) * value_dim + d)[:, None] * KEY_DIM + w[None, :]
    scores = tl.zeros((CHUNK, CHUNK), tl.float32)
    total = tl.zeros((CHUNK, VALUES), tl.float32)
    for part in range(0, KEY_DIM, WIDTH):
        query = tl.load(q + row * KEY_DIM + part + w[None, :], known, other=0.0)
        keys = tl.load(k + row * KEY_DIM + part + w[None, :], known, other=0.0)
        state = tl.load(states + state_at + part, (d < value_dim)[:, None], other=0.0)
        scores += product(query, keys, TURN=True)
        total += product(query, state, TURN=True)
    total *= tl.exp2(r.to(tl.float32) * logarithm)[:, None]
    distance = r[:, None] - r[None, :]
    powers = tl.exp2(tl.maximum(distance, 0).to(tl.float32) * logarithm)
    scores = tl.where(distance >= 0, scores * powers, 0.0)
    inside = known & (d < value_dim)[None, :]
    values = tl.load(v + row * value_dim + d[None, :], inside, other=0.0)
    total += product(scores, values, TURN=False)
    tl.store(out + row * value_dim + d[None, :], total, inside)


def retention(q, k, v, decay, out):
    heads, tokens, key_dim = q.shape
    value_dim = v.shape[2]
    chunks = triton.cdiv(tokens, CHUNK)
    shape = (heads, chunks, value_dim, key_dim)
    states = torch.empty(shape, dtype=torch.float32, device=q.device)
    state_kernel[(triton.cdiv(key_dim, 64), triton.cdiv(value_dim, 128), heads)](
        k, v, decay, states, tokens, key_dim, value_dim, chunks,
        CHUNK=CHUNK, WIDTH=64, VALUES=128, num_warps=8, num_stages=2,
    )  # fmt: skip
    output_kernel[(chunks, triton.cdiv(value_dim, 64), heads)](
        q, k, v, decay, states, out, tokens, value_dim,
        KEY_DIM=key_dim, CHUNK=CHUNK, WIDTH=32, VALUES=64, num_warps=4, num_stages=2,
    )  # fmt: skip
