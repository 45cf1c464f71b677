# mutant: leaves out the weight
# expect: WRONG_VALUES
import torch


def rms_norm(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
