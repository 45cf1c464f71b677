"""Complex matrix product for each mode of a Fourier neural operator (Li et al., 2020).

    out[b, o, m] = sum over i of x[b, i, m] * weight[i, o, m]

A complex number is a pair along the last dimension: the real part, then the imaginary part. The
product is complex, without a conjugate. It is one small matrix product for each mode, with modes
last. Products are accumulated as IEEE float32 or better, not TF32.
"""

import torch


def reference(x, weight):
    (a, b), (c, d) = x.unbind(-1), weight.unbind(-1)
    product = "bim,iom->bom"
    real = torch.einsum(product, a, c) - torch.einsum(product, b, d)
    imaginary = torch.einsum(product, a, d) + torch.einsum(product, b, c)
    return torch.stack((real, imaginary), dim=-1)
