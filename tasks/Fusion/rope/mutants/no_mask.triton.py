# mutant: stores without masking the tail of a half
import triton
import triton.language as tl

WARPS = 1


@triton.jit
def rope_kernel(x, cos, sin, out, heads, half_dim, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    start = (token * heads + tl.program_id(1)) * 2 * half_dim
    offsets = tl.arange(0, BLOCK)
    mask = offsets < half_dim

    first = tl.load(x + start + offsets, mask).to(tl.float32)
    second = tl.load(x + start + half_dim + offsets, mask).to(tl.float32)
    c = tl.load(cos + token * half_dim + offsets, mask).to(tl.float32)
    s = tl.load(sin + token * half_dim + offsets, mask).to(tl.float32)

    tl.store(out + start + offsets, first * c - second * s)
    tl.store(out + start + half_dim + offsets, second * c + first * s)


def rope(q, k, cos, sin, q_out, k_out):
    tokens, half_dim = cos.shape
    block = triton.next_power_of_2(half_dim)
    for x, out in ((q, q_out), (k, k_out)):
        heads = x.shape[1]
        rope_kernel[(tokens, heads)](
            x, cos, sin, out, heads, half_dim, BLOCK=block, num_warps=WARPS
        )
