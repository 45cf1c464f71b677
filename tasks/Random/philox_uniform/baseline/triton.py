"""Uniform numbers from Philox4x32-10, one program per block of counters, four numbers each."""

import triton
import triton.language as tl

# arena: tune BLOCK 128 256 512 1024
BLOCK = 256

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def philox_uniform_kernel(key_ptr, out_ptr, blocks, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < blocks
    seed = tl.load(key_ptr) | (tl.load(key_ptr + 1) << 32)
    counter = offsets.to(tl.uint32)
    zero = tl.zeros_like(counter)
    a, b, c, d = tl.philox(seed, counter, zero, zero, zero)
    # The upper 24 bits of a word are exact in float32.
    tl.store(out_ptr + 4 * offsets, (a >> 8).to(tl.float32) * 2.0**-24, mask)
    tl.store(out_ptr + 4 * offsets + 1, (b >> 8).to(tl.float32) * 2.0**-24, mask)
    tl.store(out_ptr + 4 * offsets + 2, (c >> 8).to(tl.float32) * 2.0**-24, mask)
    tl.store(out_ptr + 4 * offsets + 3, (d >> 8).to(tl.float32) * 2.0**-24, mask)


def philox_uniform(key, out, blocks):
    philox_uniform_kernel[(triton.cdiv(blocks, BLOCK),)](
        key, out, blocks, BLOCK=BLOCK, num_warps=WARPS
    )
