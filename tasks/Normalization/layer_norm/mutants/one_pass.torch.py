# mutant: takes the variance as the mean of the squares less the square of the mean
# expect: WRONG_VALUES
import torch


def layer_norm(x, weight, bias, eps):
    wide = x.float()
    mean = wide.mean(dim=-1, keepdim=True)
    variance = (wide.square().mean(dim=-1, keepdim=True) - mean.square()).clamp(min=0)
    norm = (wide - mean) * torch.rsqrt(variance + eps)
    return (norm * weight.float() + bias.float()).to(x.dtype)
