# honest: compiled by PyTorch, which tries several kernels when it is first called
# seconds: 300
import torch


@torch.compile(mode="max-autotune-no-cudagraphs", dynamic=True)
def centred(x, scale):
    return (x - x.mean(-1, keepdim=True)) * scale
