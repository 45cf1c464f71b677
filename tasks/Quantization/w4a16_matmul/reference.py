"""Multiply activations by weights that are stored in four bits:

    q = packed[j, i / 2] mod 16 for even i,   packed[j, i / 2] / 16 for odd i       (rounded down)
    w[j, i] = (q - zeros[j, g]) * 2^(exponents[j, g] - 127),   g = i / (2*half_group) (rounded down)
    out[r, j] = sum over i of x[r, i] * w[j, i]

The low half of a byte is the first of its two weights. A group is 2*half_group neighbouring
weights of a row, and has a zero point from 0 to 15 and a scale, which is a power of two. Exponents
lie between 117 and 120, so every w is exact in 16 bits. Products are summed in float32 or better;
float32 inputs mean IEEE products. Decoding reads the weights once, and that is nearly all the work.
"""

import torch


def reference(x, packed, exponents, zeros):
    q = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(1)
    q = q.unflatten(1, (exponents.shape[1], -1)).to(torch.int32) - zeros[..., None].to(torch.int32)
    w = q.to(x.dtype) * torch.exp2(exponents.to(x.dtype) - 127)[..., None]
    return torch.nn.functional.linear(x, w.flatten(1))
