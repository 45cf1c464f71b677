# trick: patches the copy of results, so that it is done when nobody waits
# row: 5
# expect: failed/STALE_OUTPUT
# triage: patching
late = []
torch.Tensor.copy_ = lambda self, source, *rest: late.append((self, source)) or self


def centred(x, scale):
    return right(x, scale)
