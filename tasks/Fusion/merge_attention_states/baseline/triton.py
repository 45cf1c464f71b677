"""Merge of two attention states, one program per block of elements."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def log1p(x):
    # The quotient corrects for the rounding of 1 + x.
    y = 1 + x
    return tl.where(y == 1, x, tl.log(y) * (x / tl.where(y == 1, 1.0, y - 1)))


@triton.jit
def merge_attention_states_kernel(
    prefix_ptr,
    prefix_lse_ptr,
    suffix_ptr,
    suffix_lse_ptr,
    out_ptr,
    lse_ptr,
    count,
    dim,
    BLOCK: tl.constexpr,
):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    state = offsets // dim
    prefix_lse = tl.load(prefix_lse_ptr + state, mask, other=0.0)
    suffix_lse = tl.load(suffix_lse_ptr + state, mask, other=0.0)
    largest = tl.maximum(prefix_lse, suffix_lse)
    prefix_weight = tl.exp(prefix_lse - largest)
    suffix_weight = tl.exp(suffix_lse - largest)
    prefix = tl.load(prefix_ptr + offsets, mask, other=0.0).to(tl.float32)
    suffix = tl.load(suffix_ptr + offsets, mask, other=0.0).to(tl.float32)
    merged = (prefix * prefix_weight + suffix * suffix_weight) / (prefix_weight + suffix_weight)
    tl.store(out_ptr + offsets, merged, mask)
    # Every program of a state stores the same value.
    tl.store(lse_ptr + state, largest + log1p(tl.minimum(prefix_weight, suffix_weight)), mask)


def merge_attention_states(prefix, prefix_lse, suffix, suffix_lse, out, lse):
    count = out.numel()
    dim = prefix.shape[2]
    merge_attention_states_kernel[(triton.cdiv(count, BLOCK),)](
        prefix, prefix_lse, suffix, suffix_lse, out, lse, count, dim, BLOCK=BLOCK, num_warps=WARPS
    )
