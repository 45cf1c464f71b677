"""Turn attention scores into probabilities, without the keys that a mask hides.

`mask` is the same for all heads of an item; true hides a key. With V the visible keys of query q,

    e[k] = exp(scale * scores[b, h, q, k])
    out[b, h, q, k] = e[k] / sum over j in V of e[j]

for k in V, and 0 for a hidden key. A query that sees no key gives a row of zeros. Exponentials and
sums are float32 or better. Large scores must not overflow, whether they are visible or hidden.
"""

import torch


def reference(scores, mask, scale):
    hidden = mask[:, None]
    scaled = scores.float() * scale
    largest = scaled.masked_fill(hidden, float("-inf")).amax(dim=-1, keepdim=True)
    powers = torch.exp(scaled - largest).masked_fill(hidden, 0.0)
    total = powers.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, powers / total, 0.0).to(scores.dtype)
