"""Mix each token with those before it, by products that decay with distance (Sun et al., 2023):

    s[h, i, j] = (sum over d of q[h, i, d] * k[h, j, d]) * decay[h]^(i - j)            j = 0 ... i
    out[h, i, d] = sum over j of s[h, i, j] * v[h, j, d]

There is no softmax. Token i sees the tokens 0 to i. Products are summed in float32 or better, and
powers are float32. Products are IEEE float32, not TF32. A chunked form, which carries a state of
key_dim x value_dim from chunk to chunk, gives the same result with less work for long sequences.
"""

import torch


def reference(q, k, v, decay):
    tokens = q.shape[1]
    places = torch.arange(tokens, device=q.device)
    distance = places[:, None] - places
    powers = decay[:, None, None] ** distance.clamp(min=0).to(decay.dtype)
    weights = powers.masked_fill(distance < 0, 0.0)
    scores = torch.bmm(q, k.transpose(1, 2)).float() * weights
    return torch.bmm(scores.to(v.dtype), v)


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    heads, tokens = case["heads"], case["tokens"]
    key_dim, value_dim = case["key_dim"], case["value_dim"]
    # Work of the recurrent form, which is least: a state is updated and read for each token.
    moved = heads * (tokens * 2 * (key_dim + value_dim) * item + 4)
    return moved, heads * tokens * min(4 * key_dim * value_dim, (key_dim + value_dim) * tokens)
