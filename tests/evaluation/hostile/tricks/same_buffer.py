# trick: returns the same tensor every time
# row: 29
# expect: failed/ALIASED_OUTPUT
import torch

kept = {}


def centred(x, scale):
    out = kept.setdefault(x.shape, torch.empty(x.shape))
    torch.sub(x, x.mean(-1, keepdim=True), out=out)
    return out.mul_(scale)
