# honest: compiled by PyTorch, which tries kernels and replays its own CUDA graphs
# seconds: 300
# captured: no
import torch


@torch.compile(mode="max-autotune", dynamic=True)
def centred(x, scale):
    return (x - x.mean(-1, keepdim=True)) * scale
