# honest: the library's product, which a track to PyTorch allows
# operator: product
import torch


def product(x, weight):
    return torch.mm(x, weight)
