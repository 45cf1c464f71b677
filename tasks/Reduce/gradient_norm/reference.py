"""Euclidean norm of a gradient, for clipping.

    out = sqrt(sum over i of gradient[i]^2)

Square and add in float32 or better, whatever the dtype of `gradient`: in float16 the squares would
overflow. `out` is one float32 number, a tensor without dimensions.
"""

import torch


def reference(gradient):
    return torch.linalg.vector_norm(gradient, dtype=torch.float32)
