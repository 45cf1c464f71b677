# trick: a library's product in launches that wait for the GPU, so that no graph names their kernels
# row: 42 46
# operator: product
# expect: failed/UNSUPPORTED
# triage: library-wrapper
@triton.jit
def decoy(out):
    tl.store(out, 0.0)


def product(x, weight, out):
    decoy[(1,)](out)
    x[0, 0].item()
    out.addmm_(x, weight, beta=0)
