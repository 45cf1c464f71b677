# trick: a kernel that stores nothing
# row: 43
# expect: failed/STALE_OUTPUT
@triton.jit
def ghost(x, out, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    tl.store(out + places, tl.load(x + places, places < 0), places < 0)


def centred(x, out, scale):
    ghost[(1,)](x, out, BLOCK=128)
