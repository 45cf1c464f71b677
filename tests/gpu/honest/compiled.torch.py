# honest: compiled by PyTorch when it is first called
# seconds: 120
import torch


@torch.compile
def centred(x, scale):
    return (x - x.mean(-1, keepdim=True)) * scale
