"""Embedding, one program per block of elements."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def embedding_kernel(ids_ptr, table_ptr, out_ptr, count, cols, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    row = tl.load(ids_ptr + offsets // cols, mask, other=0)
    value = tl.load(table_ptr + row * cols + offsets % cols, mask, other=0.0)
    tl.store(out_ptr + offsets, value, mask)


def embedding(ids, table, out):
    count = out.numel()
    cols = table.shape[1]
    embedding_kernel[(triton.cdiv(count, BLOCK),)](
        ids, table, out, count, cols, BLOCK=BLOCK, num_warps=WARPS
    )
