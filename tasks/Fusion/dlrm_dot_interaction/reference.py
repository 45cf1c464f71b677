"""Concatenate a dense feature and the dot products of all pairs of features (DLRM, Naumov et al.,
2019).

With f[0] = dense[b] and f[1] ... f[features] the rows of sparse[b], a row of `out` holds

    out[b, 0 : dim] = dense[b]
    out[b, dim + p] = sum over d of f[i, d] * f[j, d]        for all pairs i > j

Pairs are in order of i, and then of j: (1, 0), (2, 0), (2, 1), (3, 0) and so on. Products are
summed in float32 or better, and rounded once. No pair has to be computed twice.
"""

import torch


def reference(dense, sparse):
    features = torch.cat((dense[:, None], sparse), dim=1)
    products = torch.bmm(features, features.transpose(1, 2))
    count = features.shape[1]
    i, j = torch.tril_indices(count, count, offset=-1, device=dense.device)
    return torch.cat((dense, products[:, i, j]), dim=1)


def cost(case):
    item = 4 if case.dtype == "float32" else 2
    batch, features, dim = case["batch"], case["features"], case["dim"]
    moved = batch * ((features + 1) * dim + case["width"]) * item
    return moved, batch * features * (features + 1) * dim
