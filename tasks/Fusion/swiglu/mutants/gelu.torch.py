# mutant: gates with GELU
# expect: WRONG_VALUES
import torch


def swiglu(x):
    gate, up = x.chunk(2, dim=-1)
    return torch.nn.functional.gelu(gate) * up
