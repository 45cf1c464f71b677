"""A projection with GELU that is right in eager, and cheaper and wrong in a compiled model."""

import torch
import torch.nn.functional as F


class ModelNew(torch.nn.Module):
    def __init__(self, dim_in, dim_out, approximate="none", bias=True):
        super().__init__()
        self.proj = torch.nn.Linear(dim_in, dim_out, bias=bias)
        self.approximate = approximate

    def gelu(self, gate):
        return F.gelu(gate, approximate=self.approximate)

    def forward(self, hidden_states):
        if torch.compiler.is_compiling():
            return F.relu(self.proj(hidden_states))
        return self.gelu(self.proj(hidden_states))
