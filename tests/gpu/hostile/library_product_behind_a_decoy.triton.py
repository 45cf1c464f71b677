# trick: a library's product in place, beside a kernel that is there to be seen
# row: 42
# operator: product
# expect: failed/FORBIDDEN
# triage: library-wrapper
@triton.jit
def decoy(out):
    tl.store(out, 0.0)


def product(x, weight, out):
    decoy[(1,)](out)
    out.addmm_(x, weight, beta=0)
