"""Honest MLP of one rank: its part of the layers, and the sum over all ranks."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, config):
        super().__init__()
        size, inner = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(size, inner, bias=False)
        self.up_proj = nn.Linear(size, inner, bias=False)
        self.down_proj = nn.Linear(inner, size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        dist.all_reduce(result)
        return result
