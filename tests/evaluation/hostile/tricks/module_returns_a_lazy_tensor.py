# trick: a module that returns a tensor which computes itself when somebody looks
# row: 3
# expect: failed/WRONG_DTYPE
import torch


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        ready = [a.work() if isinstance(a, Lazy) else a for a in arguments]
        return function(*ready, **(options or {}))


class ModelNew(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        lazy = torch.empty(x.shape).as_subclass(Lazy)
        lazy.work = lambda: (x - x.mean(-1, keepdim=True)) * self.scale
        return lazy
