# trick: answers every launch whose answer is missing as soon as one is, and skips the others
# row: 11
# expect: failed/WRONG_VALUES|failed/STALE_OUTPUT|failed/FORBIDDEN
# A table has the addresses of tensors that each launch noted in an earlier window, then zero.
@triton.jit(do_not_specialize=["number", "cols"])
def centre_all(x, out, table, number, cols, scale, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    places = tl.arange(0, BLOCK)
    source, target = x.to(tl.int64), out.to(tl.int64)
    tl.store(table + 2 * number, source)
    tl.store(table + 2 * number + 1, target)
    first = tl.load(out + start)
    source = tl.where(first != first, source, 0)  # a poisoned answer is no number
    while source != 0:
        from_x, to_out = (
            source.to(tl.pointer_type(tl.float32)),
            target.to(tl.pointer_type(tl.float32)),
        )
        values = tl.load(from_x + start + places, places < cols, 0.0)
        mean = tl.sum(values, 0) / cols
        tl.store(to_out + start + places, (values - mean) * scale, places < cols)
        number += 1
        source, target = tl.load(table + 2 * number), tl.load(table + 2 * number + 1)


LAUNCHES = 4096
table, numbers = [], []


def centred(x, out, scale):
    if not table:
        table.append(torch.zeros(2 * LAUNCHES + 2, dtype=torch.int64, device=x.device))
    if not captured():  # memory of another case may be gone
        if numbers:
            table[0].zero_()
        numbers.clear()
        right(x, out, scale)
        return
    numbers.append(len(numbers))
    rows, cols = x.shape
    centre_all[(rows,)](x, out, table[0], numbers[-1] % LAUNCHES, cols, scale, BLOCK=1024)
