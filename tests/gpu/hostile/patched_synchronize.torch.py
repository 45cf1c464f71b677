# trick: has nobody wait for the GPU
# row: 5
# expect: passed|failed/STALE_OUTPUT|failed/FORBIDDEN
# triage: patching
# fastest: 1.1
torch.cuda.synchronize = lambda *device: None


def centred(x, scale):
    return right(x, scale)
