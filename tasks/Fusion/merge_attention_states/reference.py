"""Merge the attention of each query over two disjoint sets of keys, a prefix and a suffix.

`prefix` and `suffix` are the results over each set, and the `_lse` of a set is the logarithm of
its sum of exponentials of scores. For every token t and head h, with a and b the two logarithms,

    lse[t, h] = log(exp(a) + exp(b))
    out[t, h, d] = prefix[t, h, d] * exp(a - lse[t, h]) + suffix[t, h, d] * exp(b - lse[t, h])

The logarithms are finite, of any size: neither exponential may overflow. All arithmetic is float32
or better. Attention that is split over chunks of a cache (flash decoding, cascades) ends so.
"""

import torch


def reference(prefix, prefix_lse, suffix, suffix_lse):
    lse = torch.logaddexp(prefix_lse, suffix_lse)
    ours = torch.sigmoid(prefix_lse - suffix_lse)[..., None]
    theirs = torch.sigmoid(suffix_lse - prefix_lse)[..., None]
    out = prefix.float() * ours + suffix.float() * theirs
    return out.to(prefix.dtype), lse
