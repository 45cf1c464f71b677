# honest: the function of torch.nn, in float32
import torch


def rms_norm(x, weight, eps):
    norm = torch.nn.functional.rms_norm(x.float(), x.shape[-1:], weight.float(), eps)
    return norm.to(x.dtype)
