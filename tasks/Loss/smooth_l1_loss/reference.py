"""Smooth L1 loss of bounding boxes, the sum over the coordinates of each box (Girshick, 2015).

    d = |prediction[i, j] - target[i, j]|
    loss[i] = sum over j of (d^2 / (2 * beta) if d < beta else d - beta / 2)

Compute in float32 or better, whatever the dtype of the inputs; `loss` is float32.
"""

import torch


def reference(prediction, target, beta):
    each = torch.nn.functional.smooth_l1_loss(
        prediction.float(), target.float(), reduction="none", beta=beta
    )
    return each.sum(dim=-1)
