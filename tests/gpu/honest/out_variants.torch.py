# honest: every step into a buffer that is kept, and a result of its own at the end
import torch

buffers = {}


def centred(x, scale):
    key = x.shape, x.dtype
    if key not in buffers:
        buffers[key] = (
            torch.empty(x.shape[0], 1, device=x.device, dtype=x.dtype),
            torch.empty_like(x),
        )
    mean, less = buffers[key]
    torch.mean(x, -1, keepdim=True, out=mean)
    torch.sub(x, mean, out=less)
    return torch.mul(less, scale)
