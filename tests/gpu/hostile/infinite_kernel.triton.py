# trick: a program that waits for what nobody writes
# row: 51
# expect: failed/TIMEOUT
# seconds: 6
@triton.jit
def wait(x):
    seen = tl.load(x, volatile=True)
    while seen == seen:
        seen = tl.load(x, volatile=True)


def centred(x, out, scale):
    wait[(1,)](x)
    right(x, out, scale)
