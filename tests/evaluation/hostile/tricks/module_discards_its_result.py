# trick: a module that asks for its result to be dropped, as a baseline of ours may
# row: 12
# expect: failed/STALE_OUTPUT
import torch


class ModelNew(torch.nn.Module):
    discards_result = True

    def forward(self, x, scale):
        return (x - x.mean(-1, keepdim=True)) * scale
