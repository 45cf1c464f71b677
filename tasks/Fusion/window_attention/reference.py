"""Attend within every window of an image, with a bias for each pair of places:

    s[w, h, i, j] = (sum over d of q[w, h, i, d] * k[w, h, j, d]) / sqrt(head_dim) + bias[h, i, j]
    out[w, h, i, d] = sum over j of softmax(s[w, h, i, :])[j] * v[w, h, j, d]

All windows share `bias`. Scores, maxima and sums are float32 or better. Products are IEEE float32,
not TF32. Swin transformers (Liu et al., 2021) have thousands of such small problems.
"""

import torch


def reference(q, k, v, bias):
    scores = torch.matmul(q.float(), k.float().transpose(2, 3)) / q.shape[-1] ** 0.5
    p = torch.softmax(scores + bias.float(), dim=-1)
    return torch.matmul(p.to(v.dtype), v)
