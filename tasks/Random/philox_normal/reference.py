"""Fill `out` with standard normal numbers, by Philox4x32-10 (Salmon et al., 2011) and Box-Muller.

Block n starts with the counter (c0, c1, c2, c3) = (n, 0, 0, 0) and the key (k0, k1) = (key[0],
key[1]), all unsigned 32-bit words. Each of 10 rounds computes the 64-bit products p = 0xD2511F53 *
c0 and q = 0xCD9E8D57 * c2, and replaces

    (c0, c1, c2, c3) = (hi(q) ^ c1 ^ k0, lo(q), hi(p) ^ c3 ^ k1, lo(p))

where hi and lo are the upper and lower 32 bits. After each round but the last, 0x9E3779B9 is added
to k0 and 0xBB67AE85 to k1, modulo 2^32. With u_i = (floor(c_i / 2^9) + 0.5) / 2^23, which is exact
in float32,

    r = sqrt(-2 * log(u_0)),   out[n, 0] = r * cos(2 pi u_1),   out[n, 1] = r * sin(2 pi u_1)

and out[n, 2] and out[n, 3] follow likewise of u_2 and u_3. This arithmetic is float32 or better.
"""

import math

import torch

_MASK = 0xFFFFFFFF


def reference(key, blocks):
    zero = torch.zeros(int(blocks), dtype=torch.int64, device=key.device)
    # A compiler may compute with whole numbers of `arange` in 32 bits, as with indices.
    number = torch.arange(int(blocks), dtype=torch.float64, device=key.device).long()
    counter = [number, zero, zero, zero]
    words = torch.stack(_philox(counter, key[0], key[1]), dim=1)
    u = ((words >> 9).float() + 0.5) * 2.0**-23
    radius = torch.sqrt(-2 * torch.log(u[:, 0::2]))
    angle = 2 * math.pi * u[:, 1::2]
    return torch.stack((radius * angle.cos(), radius * angle.sin()), dim=2).flatten(1)


def _philox(c, k0, k1):
    for _ in range(10):
        (high, low), (other_high, other_low) = (
            _product(c[0], 0xD2511F53),
            _product(c[2], 0xCD9E8D57),
        )
        c = [other_high ^ c[1] ^ k0, other_low, high ^ c[3] ^ k1, low]
        k0, k1 = (k0 + 0x9E3779B9) & _MASK, (k1 + 0xBB67AE85) & _MASK
    return c


def _product(a, b):
    """Return the upper and lower 32 bits of a product of 32-bit words, without overflow."""
    upper, lower = a * (b >> 16), a * (b & 0xFFFF)
    return (upper + (lower >> 16)) >> 16, ((upper << 16) + lower) & _MASK


def cost(case):
    return 16 * case["blocks"] + 16, 100 * case["blocks"]
