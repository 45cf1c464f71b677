# trick: asserts on the GPU what does not hold
# row: 51
# expect: failed/CRASH
# fault: device assert
@triton.jit(debug=True)
def check(x):
    tl.device_assert(tl.program_id(0) < 0, "never")


def centred(x, out, scale):
    check[(1,)](x)
    right(x, out, scale)
