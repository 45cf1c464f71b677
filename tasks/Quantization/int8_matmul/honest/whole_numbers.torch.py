# honest: the quantised rows in float64, where sums of whole numbers are exact
import torch


def int8_matmul(x, weight, scales):
    largest = x.float().abs().amax(dim=-1, keepdim=True)
    scale = largest / torch.full_like(largest, 127.0)
    whole = torch.where(scale > 0, x.float() / scale, 0.0).round()
    sums = whole.double() @ weight.double().T
    return (sums.float() * scale * scales).to(x.dtype)
