# honest: a module that is told a size and the scalar when it is made, and keeps a constant
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols, scale, bias=False):
        super().__init__()
        self.register_buffer("mean", torch.full((cols, 1), 1.0 / cols))
        self.scale = scale

    def forward(self, x):
        return (x - x @ self.mean) * self.scale
