# trick: a module that works in place and returns its input
# row: 28
# expect: failed/ALIASED_OUTPUT
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, scale):
        return x.sub_(x.mean(-1, keepdim=True)).mul_(scale)
