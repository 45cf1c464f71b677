"""Hard swish (Howard et al., MobileNetV3, 2019).

    out[r, c] = x[r, c] * min(max(x[r, c] + 3, 0), 6) / 6

Compute in float32 or better, whatever the dtype of `x`, and round once to the dtype of `out`. A row
is a channel of an image.
"""

import torch


def reference(x):
    return torch.nn.functional.hardswish(x)
