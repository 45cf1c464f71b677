"""Attend causally with grouped queries and scores that a tanh caps, as in Gemma 2:

    s[h, t, j] = cap * tanh(scale * (sum over d of q[h, t, d] * k[h / group, j, d]) / cap)
    out[h, t, d] = sum over j of softmax(s[h, t, :])[j] * v[h / group, j, d]          j = 0 ... t

Query head h reads the keys and values of head h / group, rounded down. Token t sees the keys 0 to
t. Scores, the tanh, maxima and sums are float32 or better. Products are IEEE float32, not TF32. The
scores of a whole prompt need not be written to memory.
"""

import torch


def reference(q, k, v, scale, cap):
    kv_heads, tokens, head_dim = k.shape
    q = q.reshape(kv_heads, -1, head_dim)
    scores = torch.bmm(q.float(), k.float().transpose(1, 2)) * scale
    capped = (cap * torch.tanh(scores / cap)).view(kv_heads, -1, tokens, tokens)
    places = torch.arange(tokens, device=q.device)
    hidden = places[:, None] < places
    p = torch.softmax(capped.masked_fill(hidden, -1e30), dim=-1)
    out = torch.bmm(p.view(kv_heads, -1, tokens).to(v.dtype), v)
    return out.view(-1, tokens, head_dim)


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    tokens, head_dim, heads = case["tokens"], case["head_dim"], case["kv_heads"] * case["group"]
    moved = 2 * (heads + case["kv_heads"]) * tokens * head_dim * item
    return moved, 4 * heads * head_dim * tokens * (tokens + 1) // 2
