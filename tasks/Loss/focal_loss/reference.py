"""Sigmoid focal loss with gamma 2, summed over the classes of each anchor (Lin et al., 2017).

    x = logits[a, c],  p = 1 / (1 + exp(-x)),  y = 1 if c == label[a] else 0
    each = y * alpha * (1 - p)^2 * -log(p) + (1 - y) * (1 - alpha) * p^2 * -log(1 - p)
    loss[a] = sum over c of each

Take both logarithms as `-log(p) = log(1 + exp(-x))` and `-log(1 - p) = log(1 + exp(x))`, with
`log1p`: large logits of either sign occur and must neither overflow nor give NaN. Compute in
float32 or better, whatever the dtype of `logits`; `loss` is float32.
"""

import torch
from torch.nn.functional import logsigmoid


def reference(logits, label, alpha):
    x = logits.float()
    hit = torch.arange(x.shape[-1], device=x.device) == label[..., None]
    positive = alpha * torch.sigmoid(-x).square() * -logsigmoid(x)
    negative = (1 - alpha) * torch.sigmoid(x).square() * -logsigmoid(-x)
    return torch.where(hit, positive, negative).sum(dim=-1)
