# honest: one program per block of flattened pairs, whatever token and head they belong to
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def rope_kernel(x, cos, sin, out, heads, half_dim, pairs, BLOCK: tl.constexpr):
    pair = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = pair < pairs
    head, i = pair // half_dim, pair % half_dim
    place = head * 2 * half_dim + i
    angle = head // heads * half_dim + i
    c = tl.load(cos + angle, mask, other=0.0).to(tl.float32)
    s = tl.load(sin + angle, mask, other=0.0).to(tl.float32)
    first = tl.load(x + place, mask, other=0.0).to(tl.float32)
    second = tl.load(x + place + half_dim, mask, other=0.0).to(tl.float32)
    tl.store(out + place, first * c - second * s, mask)
    tl.store(out + place + half_dim, second * c + first * s, mask)


def rope(q, k, cos, sin, q_out, k_out):
    half_dim = cos.shape[1]
    for x, out in ((q, q_out), (k, k_out)):
        pairs = x.numel() // 2
        grid = (triton.cdiv(pairs, BLOCK),)
        rope_kernel[grid](x, cos, sin, out, x.shape[1], half_dim, pairs, BLOCK=BLOCK)
