# trick: stores far beyond all memory
# row: 51
# expect: failed/CRASH
# fault: illegal access
@triton.jit
def astray(out):
    tl.store(out + (tl.program_id(0).to(tl.int64) + 1) * (1 << 40), 1.0)


def centred(x, out, scale):
    astray[(4,)](out)
    right(x, out, scale)
