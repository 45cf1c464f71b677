# trick: a library's product by a method that a pattern matches, as if it described a tensor
# row: 42 46
# operator: product
# expect: failed/FORBIDDEN
# triage: library-wrapper
@triton.jit
def decoy(out):
    tl.store(out, 0.0)


def product(x, weight, out):
    decoy[(1,)](out)
    match out:
        case torch.Tensor(addmm_=multiply):
            multiply(x, weight, beta=0)
