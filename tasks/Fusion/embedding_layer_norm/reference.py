"""Look up the embeddings of every token, add them up, and normalise the sum:

    s[b, t, c] = words[ids[b, t], c] + places[t, c] + kinds[segments[b, t], c]
    out[b, t, c] = (s - mean(s)) / sqrt(var(s) + eps) * weight[c] + bias[c]

The mean and the variance run over the `cols` of a token; the variance divides by `cols` and must
be that of centred values. `ids` lie between 0 and vocab - 1, and `segments` are 0 or 1. Token t
stands at position t; `places` may have more rows than tokens. All arithmetic is float32 or better.
BERT (Devlin et al., 2019) begins so.
"""

import torch


def reference(ids, segments, words, places, kinds, weight, bias, eps):
    total = words[ids].float() + places[: ids.shape[1]].float() + kinds[segments].float()
    shape = words.shape[-1:]
    out = torch.nn.functional.layer_norm(total, shape, weight.float(), bias.float(), eps)
    return out.to(words.dtype)


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    count, vocab, cols = case["batch"] * case["tokens"], case["vocab"], case["cols"]
    found = vocab * (1 - (1 - 1 / vocab) ** count)  # words that occur at least once, on average
    moved = (found + case["tokens"] + count + 4) * cols * item + 16 * count
    return int(moved), 10 * count * cols
