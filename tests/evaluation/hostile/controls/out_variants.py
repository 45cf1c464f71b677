# honest: a new tensor, filled by out= and in place
import torch


def centred(x, scale):
    out = torch.empty_like(x)
    torch.sub(x, torch.mean(x, dim=-1, keepdim=True), out=out)
    return out.mul_(scale)
