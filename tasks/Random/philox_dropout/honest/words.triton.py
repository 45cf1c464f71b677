# honest: unsigned 32-bit words throughout, four elements of a block by one lane
import triton
import triton.language as tl

BLOCK = 512


@triton.jit
def dropout_kernel(x, key, out, blocks, p, scale, BLOCK: tl.constexpr):
    block = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    place = block[:, None] * 4 + tl.arange(0, 4)[None, :]
    inside = (block < blocks)[:, None]
    values = tl.load(x + place, inside, other=0.0).to(tl.float32)
    seed = tl.load(key) | (tl.load(key + 1) << 32)
    counter = block.to(tl.uint32)
    zero = tl.zeros_like(counter)
    a, b, c, d = tl.philox(seed, counter, zero, zero, zero)
    words = tl.reshape(tl.join(tl.join(a, c), tl.join(b, d)), (BLOCK, 4))
    # The upper 24 bits decide, since p is a multiple of 2^-24.
    kept = (words >> 8).to(tl.float32) * 2.0**-24 >= p
    tl.store(out + place, tl.where(kept, values * scale, 0.0), inside)


def philox_dropout(x, key, out, p):
    blocks = x.shape[0]
    dropout_kernel[(triton.cdiv(blocks, BLOCK),)](
        x, key, out, blocks, p, 1 / (1 - p), BLOCK=BLOCK, num_warps=4
    )
