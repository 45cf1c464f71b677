import torch


def right(x, scale):
    return (x - torch.mean(x, -1, keepdim=True)) * scale


def cheap(x, scale):
    """The mean of the first eighth of a row for that of all."""
    return (x - torch.mean(x[:, : x.shape[1] // 8 + 1], -1, keepdim=True)) * scale
