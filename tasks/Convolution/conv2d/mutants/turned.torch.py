# mutant: turns the filters round, as a convolution of signals does
# expect: WRONG_VALUES
import torch


def conv2d(x, weight, bias, stride):
    result = torch.nn.functional.conv2d(
        x.float().permute(0, 3, 1, 2),
        weight.float().flip(1, 2).permute(0, 3, 1, 2),
        bias.float(),
        stride=stride,
        padding=weight.shape[1] // 2,
    )
    return result.permute(0, 2, 3, 1).to(x.dtype)
