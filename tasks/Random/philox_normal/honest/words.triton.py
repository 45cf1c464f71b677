# honest: unsigned 32-bit words throughout, four numbers of a block by one lane
import triton
import triton.language as tl

BLOCK = 512


@triton.jit
def turn(u):
    """Return cosine and sine of 2 pi u, from its distance to the nearest quarter."""
    quarter = tl.floor(4 * u + 0.5)
    angle = 1.5707963267948966 * (4 * u - quarter)
    cosine, sine = tl.cos(angle), tl.sin(angle)
    number = quarter.to(tl.int32)
    swapped = (number & 1) == 1
    along, across = tl.where(swapped, sine, cosine), tl.where(swapped, cosine, sine)
    along = tl.where(((number + 1) & 2) == 2, -along, along)
    return along, tl.where((number & 2) == 2, -across, across)


@triton.jit
def normal_kernel(key, out, blocks, BLOCK: tl.constexpr):
    block = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = block < blocks
    seed = tl.load(key) | (tl.load(key + 1) << 32)
    counter = block.to(tl.uint32)
    zero = tl.zeros_like(counter)
    a, b, c, d = tl.philox(seed, counter, zero, zero, zero)
    # The upper 23 bits and a half are exact in float32.
    a, b = ((a >> 9).to(tl.float32) + 0.5) * 2.0**-23, ((b >> 9).to(tl.float32) + 0.5) * 2.0**-23
    c, d = ((c >> 9).to(tl.float32) + 0.5) * 2.0**-23, ((d >> 9).to(tl.float32) + 0.5) * 2.0**-23
    first, second = tl.sqrt(-2 * tl.log(a)), tl.sqrt(-2 * tl.log(c))
    first_cosine, first_sine = turn(b)
    second_cosine, second_sine = turn(d)
    even = tl.join(first * first_cosine, second * second_cosine)
    odd = tl.join(first * first_sine, second * second_sine)
    # The last axis has cosine and sine, the one before it the pair.
    numbers = tl.reshape(tl.join(even, odd), (BLOCK, 4))
    place = block[:, None] * 4 + tl.arange(0, 4)[None, :]
    tl.store(out + place, numbers, mask[:, None])


def philox_normal(key, out, blocks):
    normal_kernel[(triton.cdiv(blocks, BLOCK),)](key, out, blocks, BLOCK=BLOCK, num_warps=4)
