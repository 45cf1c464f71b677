"""Attend with one query of each sequence to keys and values that are stored in int8.

Query head h reads the keys and values of head n = h / group, rounded down:

    s[j] = (sum over d of q[b, h, d] * keys[b, n, j, d]) * key_scales[b, n, j] / sqrt(head_dim)
    out[b, h, d] = sum over j of softmax(s)[j] * value_scales[b, n, j] * values[b, n, j, d]

where j runs over the whole `context`. Each cached token has a scale for its key and one for its
value. Scores, maxima, sums and scales are float32 or better; large scores must not overflow. Where
`q` has 16 bits, the factors of both products may be rounded to its dtype. Reading the cache once
is nearly all the work.
"""

import torch


def reference(q, keys, key_scales, values, value_scales):
    batch, kv_heads, _, head_dim = keys.shape
    wide = q.float().view(batch, kv_heads, -1, head_dim)
    scores = torch.matmul(wide, keys.float().transpose(2, 3)) * key_scales[:, :, None]
    p = torch.softmax(scores / head_dim**0.5, dim=-1) * value_scales[:, :, None]
    return torch.matmul(p, values.float()).view(q.shape).to(q.dtype)
