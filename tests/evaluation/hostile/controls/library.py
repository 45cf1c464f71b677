# honest: a matrix product for the mean
from torch.nn import functional as F


def centred(x, scale):
    ones = x.new_ones(x.shape[-1], x.shape[-1]) / x.shape[-1]
    return (x - F.linear(x, ones)) * scale
