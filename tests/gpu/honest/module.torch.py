# honest: a module, called in the dtype and on the device that it is given
import torch


class Centre(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return torch.addcmul(
            x * self.scale, x.mean(-1, keepdim=True), -torch.full_like(x, self.scale)
        )


def centred(x, scale):
    return Centre(scale)(x)
