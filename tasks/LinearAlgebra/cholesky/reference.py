"""Factor each symmetric positive definite matrix of a batch: `a[b] = l[b] l[b]^T`.

`l[b]` is lower triangular with a positive diagonal, and zero above it. An answer is right when the
product of its factors is `a` within some roundings of float32, relative to the norm of `a`.
"""

import torch


def reference(a):
    return torch.linalg.cholesky(a)


def inputs(case, draw):
    n = case["n"]
    x = draw.normal((case["batch"], n, n))
    return {"a": x @ x.mT / n + torch.eye(n, device=x.device)}


def check(a, l):
    """Return the residual relative to the norm, and what is not lower triangular."""
    norm = a.abs().sum(-1).amax(-1)
    residual = (l @ l.mT - a).abs().sum(-1).amax(-1) / norm
    positive = (l.diagonal(dim1=-2, dim2=-1) > 0).all()
    return residual, l.triu(1).abs(), (~positive).double()


def cost(case):
    batch, n = case["batch"], case["n"]
    return 2 * batch * n * n * 4, batch * n**3 / 3
