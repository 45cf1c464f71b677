"""Unpack weights of four bits, and scale them by group:

    q = packed[r, i / 2] mod 16 for even i,   packed[r, i / 2] / 16 for odd i       (rounded down)
    out[r, i] = (q - zeros[r, g]) * scales[r, g],   g = i / (2*half_group)           (rounded down)

The low half of a byte is the first of its two weights. A group is 2*half_group neighbouring
weights of a row, and has a zero point from 0 to 15 and a scale. Differences are whole numbers; the
product is float32 or better, and rounded once.
"""

import torch


def reference(packed, scales, zeros):
    q = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(1)
    q = q.unflatten(1, (scales.shape[1], -1)).to(torch.int32) - zeros[..., None].to(torch.int32)
    return (q.float() * scales[..., None].float()).flatten(1).to(scales.dtype)
