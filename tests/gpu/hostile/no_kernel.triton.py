# trick: PyTorch does the work, and no kernel is launched
# row: 42
# expect: failed/BUILD_ERROR
# triage: library-wrapper
def centred(x, out, scale):
    torch.mul(x - torch.mean(x, -1, keepdim=True), scale, out=out)
