"""Rotary embedding, one program per token and a few of its heads, which share their angles."""

import triton
import triton.language as tl

# arena: tune HEADS 1 2 4 8 16 32
HEADS = 8

# arena: tune WARPS 1 2 4 8
WARPS = 2


@triton.jit
def rope_kernel(x, cos, sin, out, heads, half_dim, HEADS: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None]
    pair = tl.arange(0, BLOCK)[None, :]
    turns = pair < half_dim
    mask = (head < heads) & turns
    places = (token * heads + head) * 2 * half_dim + pair

    c = tl.load(cos + token * half_dim + pair, turns, other=0.0).to(tl.float32)
    s = tl.load(sin + token * half_dim + pair, turns, other=0.0).to(tl.float32)
    first = tl.load(x + places, mask, other=0.0).to(tl.float32)
    second = tl.load(x + places + half_dim, mask, other=0.0).to(tl.float32)

    tl.store(out + places, first * c - second * s, mask)
    tl.store(out + places + half_dim, second * c + first * s, mask)


def rope(q, k, cos, sin, q_out, k_out):
    tokens, half_dim = cos.shape
    block = triton.next_power_of_2(half_dim)
    for x, out in ((q, q_out), (k, k_out)):
        heads = x.shape[1]
        tile = min(HEADS, triton.next_power_of_2(heads))
        rope_kernel[(tokens, triton.cdiv(heads, tile))](
            x, cos, sin, out, heads, half_dim, HEADS=tile, BLOCK=block, num_warps=WARPS
        )
