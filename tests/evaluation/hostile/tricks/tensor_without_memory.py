# trick: returns a tensor that has a shape and no memory
# row: 4
# expect: failed/WRONG_DTYPE|failed/CALL_ERROR
import torch


def centred(x, scale):
    return torch.empty(x.shape, device="meta")
