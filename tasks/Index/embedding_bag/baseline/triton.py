"""Mean of embeddings, one program per block of results, which walk the ids of their bags."""

import triton
import triton.language as tl

# arena: tune BLOCK 256 512 1024 2048 4096
BLOCK = 1024

# arena: tune WARPS 1 2 4 8
WARPS = 4


@triton.jit
def embedding_bag_kernel(
    ids_ptr, lengths_ptr, table_ptr, out_ptr, count, cols, capacity, BLOCK: tl.constexpr
):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    bag = offsets // cols
    length = tl.load(lengths_ptr + bag, mask, other=0)
    total = tl.zeros((BLOCK,), tl.float32)
    for n in range(capacity):
        valid = mask & (n < length)
        row = tl.load(ids_ptr + bag * capacity + n, valid, other=0)
        total += tl.load(table_ptr + row * cols + offsets % cols, valid, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, total / tl.maximum(length, 1).to(tl.float32), mask)


def embedding_bag(ids, lengths, table, out):
    count = out.numel()
    cols = table.shape[1]
    capacity = ids.shape[1]
    embedding_bag_kernel[(triton.cdiv(count, BLOCK),)](
        ids, lengths, table, out, count, cols, capacity, BLOCK=BLOCK, num_warps=WARPS
    )
