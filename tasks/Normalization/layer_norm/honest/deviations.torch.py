# honest: mean and deviations by hand, in float32
import torch


def layer_norm(x, weight, bias, eps):
    centred = x.float() - x.float().mean(dim=-1, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + eps)
    return (centred * scale * weight.float() + bias.float()).to(x.dtype)
