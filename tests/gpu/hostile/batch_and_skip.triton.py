# trick: answers every launch whose answer is missing as soon as one is, and skips the others
# row: 11
# expect: failed/WRONG_VALUES|failed/STALE_OUTPUT|failed/FORBIDDEN
@triton.jit(do_not_specialize=["launches", "x_step", "out_step", "cols"])
def centre_all(x, out, launches, x_step, out_step, cols, scale, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    places = tl.arange(0, BLOCK)
    first = tl.load(out + start)
    missing = tl.where(first != first, launches, 0)  # a poisoned answer is no number
    for launch in range(missing):
        values = tl.load(x + launch * x_step + start + places, places < cols, 0.0)
        mean = tl.sum(values, 0) / cols
        tl.store(out + launch * out_step + start + places, (values - mean) * scale, places < cols)


known = {}


def step(tensor, seen):
    """The distance in memory from one launch's tensor to the next, once two were seen."""
    seen.add(tensor.storage_offset())
    offsets = sorted(seen)
    return offsets[1] - offsets[0] if len(offsets) > 1 else 0


def centred(x, out, scale):
    rows, cols = x.shape
    xs, outs = known.setdefault((rows, cols), (set(), set()))
    x_step, out_step = step(x, xs), step(out, outs)
    if not captured() or not x_step:
        right(x, out, scale)
        return
    room = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
    launches = min(512, (room - x.numel()) // x_step + 1)
    centre_all[(rows,)](x, out, launches, x_step, out_step, cols, scale, BLOCK=1024)
