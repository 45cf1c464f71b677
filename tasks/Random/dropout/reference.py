"""Set each element of `x` to zero with probability `p`, and divide the others by `1 - p`:

    out[r, c] = 0               with probability p
    out[r, c] = x[r, c] / (1 - p)   otherwise

Choices are independent for each element, and differ from call to call: `seed` is another number in
each call, from which a generator of your own can start. The reference ignores it and uses
PyTorch's generator. Tests compare the share of zeros, the correlation of neighbours and that of
two calls with those of independent choices.
"""

import torch


def reference(x, seed, p):
    kept = torch.rand(x.shape, device=x.device) >= p
    return torch.where(kept, x / (1 - p), 0).to(x.dtype)


def distribution(x, seed, out, p):
    """Return whether each element was kept, and the probability of that or less."""
    kept = out != 0
    right = (out - x / (1 - p)).abs() <= 2**-7 * x
    probability = torch.where(kept, 1.0, p).double()
    return kept.double(), torch.where(kept & ~right, torch.nan, probability)
