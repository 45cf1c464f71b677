"""Dice loss of segmentation masks, for each mask (Milletari et al., 2016).

    p = 1 / (1 + exp(-logits[m, i])),  y = 1 if target[m, i] else 0
    loss[m] = 1 - (2 * sum over i of p * y + 1) / (sum over i of p + sum over i of y + 1)

Compute in float32 or better, whatever the dtype of `logits`; `loss` is float32. Large logits of
either sign occur and must not give NaN.
"""

import torch


def reference(logits, target):
    p = torch.sigmoid(logits.float())
    hit = torch.where(target, p, 0.0).sum(dim=-1)
    return 1 - (2 * hit + 1) / (p.sum(dim=-1) + target.sum(dim=-1) + 1)
