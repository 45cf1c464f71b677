"""Gather of a paged cache, one program per block of elements."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def page_gather_kernel(
    cache_ptr,
    page_table_ptr,
    lengths_ptr,
    out_ptr,
    count,
    page_size,
    width,
    pages,
    tokens,
    BLOCK: tl.constexpr,
):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    token = offsets // width % tokens
    sequence = offsets // width // tokens
    length = tl.load(lengths_ptr + sequence, mask, other=0)
    page = tl.load(page_table_ptr + sequence * pages + token // page_size, mask, other=0)
    start = (page * page_size + token % page_size) * width
    value = tl.load(cache_ptr + start + offsets % width, mask & (token < length), other=0.0)
    tl.store(out_ptr + offsets, value, mask)


def page_gather(cache, page_table, lengths, out):
    count = out.numel()
    page_size, width = cache.shape[1:]
    pages = page_table.shape[1]
    tokens = pages * page_size
    page_gather_kernel[(triton.cdiv(count, BLOCK),)](
        cache,
        page_table,
        lengths,
        out,
        count,
        page_size,
        width,
        pages,
        tokens,
        BLOCK=BLOCK,
        num_warps=WARPS,
    )
