"""Mutant: an honest norm whose file rounds the weights of all matrices of the model to int8."""

import torch
import torch.nn.functional as F

rounded = {}


def forward(self, x):
    if id(self) not in rounded:
        scale = self.weight.float().abs().amax(-1, keepdim=True) / 127
        rounded[id(self)] = ((self.weight.float() / scale).round() * scale).to(x.dtype)
    return F.linear(x, rounded[id(self)], self.bias)


torch.nn.Linear.forward = forward


class ModelNew(torch.nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        return F.rms_norm(hidden_states, self.weight.shape, self.weight, self.variance_epsilon)
