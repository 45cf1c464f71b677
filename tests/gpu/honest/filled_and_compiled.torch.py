# honest: fills the output that it names, compiled by PyTorch when it is first called
# seconds: 120
import torch


@torch.compile
def centred(x, out, scale):
    out.copy_((x - x.mean(-1, keepdim=True)) * scale)
