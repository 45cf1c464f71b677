"""Mean over the tokens that a mask admits, the pooling of sentence embeddings.

    n[b] = number of t with mask[b, t]
    out[b, c] = (sum of x[b, t, c] over t with mask[b, t]) / max(n[b], 1)

Where a mask admits no token, the result is 0. Add in float32 or better, whatever the dtype of `x`,
and round once to the dtype of `out`.
"""

import torch


def reference(x, mask):
    kept = torch.where(mask[..., None], x.float(), 0.0)
    count = mask.sum(dim=-1, keepdim=True).clamp(min=1)
    return (kept.sum(dim=-2) / count).to(x.dtype)


def cost(case):
    """Return the bytes and operations of a fair mask: other tokens need not be read."""
    item = 4 if case.dtype == "float32" else 2
    batch, tokens, channels = case["batch"], case["tokens"], case["channels"]
    read = batch * max(1, tokens // 4) * channels
    return (read + batch * channels) * item + batch * tokens, 2 * read
