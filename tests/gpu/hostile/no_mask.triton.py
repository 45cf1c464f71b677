# trick: stores whole blocks, past the end of the output
# row: 40
# expect: failed/OUT_OF_BOUNDS|failed/WRONG_VALUES
@triton.jit(do_not_specialize=["cols"])
def wide(out, elements, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    tl.store(out + elements + places, 0.0, places < 7)


def centred(x, out, scale):
    right(x, out, scale)
    wide[(1,)](out, out.numel(), BLOCK=128)
