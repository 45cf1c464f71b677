# honest: a bag a program; several rows of the table are in flight at once
import triton
import triton.language as tl

ELEMENTS = 2048


@triton.jit
def bag_kernel(
    ids, lengths, table, out, capacity, cols, ITEMS: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    bag = tl.program_id(0).to(tl.int64)
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    length = tl.load(lengths + bag).to(tl.int32)
    total = tl.zeros((COLS,), tl.float32)
    for first in range(0, length, ITEMS):
        item = first + tl.arange(0, ITEMS)
        row = tl.load(ids + bag * capacity + item, item < length, other=0)
        inside = (item < length)[:, None] & (col < cols)[None, :]
        values = tl.load(table + row[:, None] * cols + col[None, :], inside, other=0.0)
        total += tl.sum(values.to(tl.float32), axis=0)
    mean = total / tl.maximum(length, 1)
    tl.store(out + bag * cols + col, mean, col < cols)


def embedding_bag(ids, lengths, table, out):
    bags, capacity = ids.shape
    cols = table.shape[1]
    width = min(256, triton.next_power_of_2(cols))
    items = min(triton.next_power_of_2(capacity), 32, ELEMENTS // width)
    bag_kernel[(bags, triton.cdiv(cols, width))](
        ids, lengths, table, out, capacity, cols,
        ITEMS=items, COLS=width, num_warps=max(1, min(4, items * width // 256)),
    )  # fmt: skip
