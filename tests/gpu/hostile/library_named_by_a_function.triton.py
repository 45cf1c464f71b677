# trick: a library's product by an operator's method, beside functions of its kernels' names
# row: 42 46
# operator: product
# expect: failed/FORBIDDEN
# triage: library-wrapper
@triton.jit
def decoy(out):
    tl.store(out, 0.0)


def ampere_sgemm_128x64_nn():
    pass


def product(x, weight, out):
    decoy[(1,)](out)
    out.copy_(x.__matmul__(weight))
