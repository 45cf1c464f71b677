"""Multiply activations by weights in MXFP4, the OCP microscaling format of GPT-OSS.

A byte holds two codes of four bits, the low half first; a block of 32 weights shares an exponent.
A code is a sign (its highest bit) and one of the sizes 0, 0.5, 1, 1.5, 2, 3, 4, 6, in order of its
lower three bits. With c the code of weight i of row j,

    w[j, i] = sign(c) * size(c) * 2^(exponents[j, i / 32] - 127)        (i / 32 rounded down)
    out[r, j] = sum over i of x[r, i] * w[j, i]

Exponents lie between 117 and 124, so every w is exact in 16 bits. Products are summed in float32
or better; float32 inputs mean IEEE products. The result is rounded once.
"""

import torch

SIZES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def reference(x, packed, exponents):
    codes = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(1).long()
    levels = torch.tensor((*SIZES, *(-size for size in SIZES)), device=x.device, dtype=x.dtype)
    powers = torch.exp2(exponents.to(x.dtype) - 127)
    w = levels[codes].unflatten(1, (-1, 32)) * powers[..., None]
    return torch.nn.functional.linear(x, w.flatten(1))
