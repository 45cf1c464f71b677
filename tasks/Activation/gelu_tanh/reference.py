"""Apply the tanh form of GELU (Hendrycks and Gimpel, 2016) to every element of `x`:

    out = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))

Language models with this activation are GPT-2 and Gemma. Inputs of any size are finite: tanh
saturates, and must not overflow.
"""

import torch


def reference(x):
    return torch.nn.functional.gelu(x, approximate="tanh")
