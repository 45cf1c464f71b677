# mutant: normalises columns, not rows
# expect: WRONG_VALUES
import torch


def softmax(x):
    return torch.softmax(x, dim=0)
