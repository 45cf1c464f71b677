# trick: computes into the judge's own output, found in its caller's frame, and pays for no copy
# row: 3
# expect: failed/ALIASED_OUTPUT
# triage: introspection
import torch


def centred(x, scale):
    outputs = torch.sys._getframe(1).f_locals["outputs"]
    return torch.mul(x - x.mean(-1, keepdim=True), scale, out=outputs[0])
