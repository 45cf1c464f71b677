"""Mutant: a projection with GELU whose weights are rounded to int8."""

import torch
import torch.nn.functional as F


class ModelNew(torch.nn.Module):
    def __init__(self, dim_in, dim_out, approximate="none", bias=True):
        super().__init__()
        self.proj = torch.nn.Linear(dim_in, dim_out, bias=bias)
        self.approximate = approximate

    def process_weights_after_loading(self):
        weight = self.proj.weight.float()
        scale = weight.abs().amax(-1, keepdim=True) / 127
        self.rounded = ((weight / scale).round() * scale).to(self.proj.weight.dtype)

    def forward(self, hidden_states):
        gate = F.linear(hidden_states, self.rounded, self.proj.bias)
        return F.gelu(gate, approximate=self.approximate)
