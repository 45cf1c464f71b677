# honest: unsigned 32-bit words throughout, four numbers of a block by one lane
import triton
import triton.language as tl

BLOCK = 512


@triton.jit
def uniform_kernel(key, out, blocks, BLOCK: tl.constexpr):
    block = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    seed = tl.load(key) | (tl.load(key + 1) << 32)
    counter = block.to(tl.uint32)
    zero = tl.zeros_like(counter)
    a, b, c, d = tl.philox(seed, counter, zero, zero, zero)
    words = tl.reshape(tl.join(tl.join(a, c), tl.join(b, d)), (BLOCK, 4))
    # The upper 24 bits are exact in float32.
    numbers = (words >> 8).to(tl.float32) * 2.0**-24
    place = block[:, None] * 4 + tl.arange(0, 4)[None, :]
    tl.store(out + place, numbers, (block < blocks)[:, None])


def philox_uniform(key, out, blocks):
    uniform_kernel[(triton.cdiv(blocks, BLOCK),)](key, out, blocks, BLOCK=BLOCK, num_warps=4)
