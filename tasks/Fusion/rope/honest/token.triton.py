# honest: all heads of a token in one program, which loads its angles once
import triton
import triton.language as tl


@triton.jit
def rope_kernel(x, cos, sin, out, heads, half_dim, HEADS: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    pairs = tl.arange(0, BLOCK)
    head = tl.arange(0, HEADS)
    mask = (head < heads)[:, None] & (pairs < half_dim)[None, :]
    places = (token * heads + head[:, None]) * 2 * half_dim + pairs[None, :]

    c = tl.load(cos + token * half_dim + pairs, pairs < half_dim, other=0.0).to(tl.float32)
    s = tl.load(sin + token * half_dim + pairs, pairs < half_dim, other=0.0).to(tl.float32)
    first = tl.load(x + places, mask, other=0.0).to(tl.float32)
    second = tl.load(x + places + half_dim, mask, other=0.0).to(tl.float32)
    tl.store(out + places, first * c[None, :] - second * s[None, :], mask)
    tl.store(out + places + half_dim, second * c[None, :] + first * s[None, :], mask)


def rope(q, k, cos, sin, q_out, k_out):
    tokens, half_dim = cos.shape
    block = triton.next_power_of_2(half_dim)
    for x, out in ((q, q_out), (k, k_out)):
        heads = x.shape[1]
        rope_kernel[(tokens,)](
            x, cos, sin, out, heads, half_dim, HEADS=triton.next_power_of_2(heads), BLOCK=block
        )
