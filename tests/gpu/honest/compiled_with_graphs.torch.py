# honest: compiled by PyTorch, which replays its own CUDA graphs
# seconds: 300
# captured: no
import torch


@torch.compile(mode="reduce-overhead")
def centred(x, scale):
    return (x - x.mean(-1, keepdim=True)) * scale
