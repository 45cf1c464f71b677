# trick: a library's product by the sign of an assignment, beside a kernel that is there to be seen
# row: 42 46
# operator: product
# expect: failed/FORBIDDEN
# triage: library-wrapper
@triton.jit
def decoy(out):
    tl.store(out, 0.0)


def product(x, weight, out):
    decoy[(1,)](out)
    answer = x
    answer @= weight
    out.copy_(answer)
