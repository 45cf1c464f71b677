"""Variance and mean of each row.

    mean[r] = (sum over c of x[r, c]) / cols
    variance[r] = (sum over c of (x[r, c] - mean[r])^2) / cols

The variance divides by `cols`, not by `cols - 1`. Compute in float32 or better, whatever the dtype
of `x`; both outputs are float32. Rows can lie far from zero: the difference of the mean square and
the squared mean is not precise enough.
"""

import torch


def reference(x):
    return torch.var_mean(x.float(), dim=-1, correction=0)
