"""Factor the ridge-regularised Gram matrix of every data matrix of a batch:

    g[i, j] = (sum over r of x[n, r, i] * x[n, r, j]) / rows,   plus ridge where i = j
    factor[n] = the lower triangular L with positive diagonal and L L^T = g

What is above the diagonal of `factor` is zero. Products are float32 and summed in float32 or
better. `ridge` keeps g far from singular. Least squares and second-order optimisers begin so.
"""

import torch


def reference(x, ridge):
    size = x.shape[2]
    gram = torch.bmm(x.transpose(1, 2), x) / x.shape[1]
    gram = gram + ridge * torch.eye(size, dtype=x.dtype, device=x.device)
    return torch.linalg.cholesky(gram)


def cost(case):
    batch, rows, size = case["batch"], case["rows"], case["size"]
    moved = 4 * batch * (rows * size + size * size)
    return moved, batch * (rows * size * (size + 1) + size**3 // 3)
