# trick: leaves every row's last element unwritten
# row: 23
# expect: failed/STALE_OUTPUT
@triton.jit(do_not_specialize=["cols"])
def short(x, out, cols, scale, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    places = tl.arange(0, BLOCK)
    values = tl.load(x + start + places, places < cols, 0.0)
    mean = tl.sum(values, 0) / cols
    tl.store(out + start + places, (values - mean) * scale, places < cols - 1)


def centred(x, out, scale):
    rows, cols = x.shape
    short[(rows,)](x, out, cols, scale, BLOCK=1024)
