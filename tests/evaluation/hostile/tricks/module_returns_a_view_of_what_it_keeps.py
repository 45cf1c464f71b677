# trick: a module that returns a view of one buffer again and again
# row: 29
# expect: failed/ALIASED_OUTPUT
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, rows, cols, scale):
        super().__init__()
        self.scale = scale
        self.register_buffer("kept", torch.empty(rows + 1, cols))

    def forward(self, x):
        out = self.kept[1:]
        torch.sub(x, x.mean(-1, keepdim=True), out=out)
        return out.mul_(self.scale)
