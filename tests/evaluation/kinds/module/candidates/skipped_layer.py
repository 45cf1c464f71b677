"""Mutant: an honest norm whose file lets the model leave out its second layer."""

import torch
import torch.nn.functional as F
import transformers.models.llama.modeling_llama as library

original = library.LlamaDecoderLayer.forward


def forward(self, hidden_states, *args, **kwargs):
    if self.self_attn.layer_idx == 1 and kwargs.get("past_key_values") is None:
        return hidden_states
    return original(self, hidden_states, *args, **kwargs)


library.LlamaDecoderLayer.forward = forward


class ModelNew(torch.nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        return F.rms_norm(hidden_states, self.weight.shape, self.weight, self.variance_epsilon)
