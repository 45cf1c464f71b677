"""Dropout by Philox4x32-10, one program per block of counters, four elements each."""

import triton
import triton.language as tl

# arena: tune BLOCK 128 256 512 1024
BLOCK = 256

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def drop(x_ptr, out_ptr, word, threshold, p, mask):
    x = tl.load(x_ptr, mask, other=0.0).to(tl.float32)
    kept = word.to(tl.int64) >= threshold
    tl.store(out_ptr, tl.where(kept, tl.div_rn(x, 1 - p), 0.0), mask)


@triton.jit
def philox_dropout_kernel(x_ptr, key_ptr, out_ptr, blocks, threshold, p, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < blocks
    seed = tl.load(key_ptr) | (tl.load(key_ptr + 1) << 32)
    counter = offsets.to(tl.uint32)
    zero = tl.zeros_like(counter)
    a, b, c, d = tl.philox(seed, counter, zero, zero, zero)
    x_ptr += 4 * offsets
    out_ptr += 4 * offsets
    drop(x_ptr, out_ptr, a, threshold, p, mask)
    drop(x_ptr + 1, out_ptr + 1, b, threshold, p, mask)
    drop(x_ptr + 2, out_ptr + 2, c, threshold, p, mask)
    drop(x_ptr + 3, out_ptr + 3, d, threshold, p, mask)


def philox_dropout(x, key, out, p):
    blocks = x.shape[0]
    threshold = int(p * 2**32)
    philox_dropout_kernel[(triton.cdiv(blocks, BLOCK),)](
        x, key, out, blocks, threshold, p, BLOCK=BLOCK, num_warps=WARPS
    )
