# trick: a library's product under a name that is put together when it runs, beside a kernel
# row: 42 46
# operator: product
# expect: failed/FORBIDDEN
# triage: library-wrapper
@triton.jit
def decoy(out):
    tl.store(out, 0.0)


def product(x, weight, out):
    decoy[(1,)](out)
    getattr(out, "addm" + "m_")(x, weight, beta=0)
