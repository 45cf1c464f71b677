# honest: the product as an einsum, in float32
import torch


def matmul(a, b):
    return torch.einsum("mk,kn->mn", a.float(), b.float()).to(a.dtype)
