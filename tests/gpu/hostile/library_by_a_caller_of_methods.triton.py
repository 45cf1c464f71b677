# trick: a library's product by an object that calls a method of a given name
# row: 42 46
# operator: product
# expect: failed/FORBIDDEN
# triage: call
import operator


@triton.jit
def decoy(out):
    tl.store(out, 0.0)


def product(x, weight, out):
    decoy[(1,)](out)
    operator.methodcaller("addmm_", x, weight, beta=0)(out)
