# honest: a module whose forward fills the output it names
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x, *, out):
        return torch.mul(x - x.mean(-1, keepdim=True), self.scale, out=out)
