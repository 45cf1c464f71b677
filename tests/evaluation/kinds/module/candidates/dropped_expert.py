"""Mutant: an honest norm whose file routes each token to one expert less."""

import torch
import torch.nn.functional as F
import transformers.models.qwen3_moe.modeling_qwen3_moe as library

original = library.Qwen3MoeTopKRouter.forward


def forward(self, hidden_states):
    self.top_k, own = self.top_k - 1, self.top_k
    try:
        return original(self, hidden_states)
    finally:
        self.top_k = own


library.Qwen3MoeTopKRouter.forward = forward


class ModelNew(torch.nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        return F.rms_norm(hidden_states, self.weight.shape, self.weight, self.variance_epsilon)
