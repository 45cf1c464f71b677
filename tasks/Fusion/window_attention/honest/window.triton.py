# honest: a tile of queries of one window and head a program; scores stay in registers
import triton
import triton.language as tl


@triton.jit
def window_kernel(
    q, k, v, bias, out, heads, tokens, scale,
    DIM: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    window = tl.program_id(0).to(tl.int64)
    start = window * tokens * DIM
    i = tl.program_id(1) * QUERIES + tl.arange(0, QUERIES)
    j, d = tl.arange(0, KEYS), tl.arange(0, DIM)
    rows, cols = (i < tokens)[:, None], (j < tokens)[:, None]
    query = tl.load(q + start + i[:, None] * DIM + d[None, :], rows, other=0.0)
    key = tl.load(k + start + j[:, None] * DIM + d[None, :], cols, other=0.0)
    scores = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
    at = (window % heads * tokens + i[:, None]) * tokens + j[None, :]
    seen = rows & (j < tokens)[None, :]
    scores += tl.load(bias + at, seen, other=0.0)
    scores = tl.where((j < tokens)[None, :], scores, float("-inf"))
    powers = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    total = tl.sum(powers, axis=1)
    value = tl.load(v + start + j[:, None] * DIM + d[None, :], cols, other=0.0)
    result = tl.dot(powers, value, input_precision="ieee") / total[:, None]
    tl.store(out + start + i[:, None] * DIM + d[None, :], result, rows)


def window_attention(q, k, v, bias, out):
    windows, heads, tokens, dim = q.shape
    keys = max(16, triton.next_power_of_2(tokens))
    queries = min(64 if keys <= 64 else 32, keys)
    window_kernel[(windows * heads, triton.cdiv(tokens, queries))](
        q, k, v, bias, out, heads, tokens, dim**-0.5,
        DIM=dim, QUERIES=queries, KEYS=keys, num_warps=4,
    )  # fmt: skip
