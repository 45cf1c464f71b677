"""An honest RMS norm whose operator has a name that other files may use, too."""

import torch
import torch.nn.functional as F


@torch.library.custom_op("candidate::kernel", mutates_args=())
def kernel(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return F.rms_norm(x, weight.shape, weight, eps)


class ModelNew(torch.nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        return torch.ops.candidate.kernel(hidden_states, self.weight, self.variance_epsilon)
