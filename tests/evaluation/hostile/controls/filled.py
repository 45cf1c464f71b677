# honest: a function that fills the output it names, and returns nothing
import torch


def centred(x, out, scale):
    torch.sub(x, x.mean(-1, keepdim=True), out=out)
    out.mul_(scale)
