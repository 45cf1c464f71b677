# trick: PyTorch does the work, beside a kernel that is there to be seen
# row: 43
# expect: failed/FORBIDDEN
# triage: library-wrapper
@triton.jit
def decoy(out):
    tl.store(out, 0.0)


def centred(x, out, scale):
    decoy[(1,)](out)
    out.copy_(torch.mul(x - torch.mean(x, -1, keepdim=True), scale))
