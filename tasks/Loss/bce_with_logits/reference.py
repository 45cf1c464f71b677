"""Binary cross entropy of logits, the mean over all elements.

    x = logits[r, c]
    each = positive_weight * log(1 + exp(-x)) if target[r, c] else log(1 + exp(x))
    loss = mean over r, c of each

Use `log1p`; large logits of either sign occur and must not overflow. Compute in float32 or better,
whatever the dtype of `logits`. `loss` is one float32 number, a tensor without dimensions.
"""

import torch
from torch.nn.functional import logsigmoid


def reference(logits, target, positive_weight):
    x = logits.float()
    return torch.where(target, -positive_weight * logsigmoid(x), -logsigmoid(-x)).mean()
