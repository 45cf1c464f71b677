"""Fill `out` with uniform numbers from the counter-based generator Philox4x32-10 (Salmon et al.,
2011).

Block n starts with the counter (c0, c1, c2, c3) = (n, 0, 0, 0) and the key (k0, k1) = (key[0],
key[1]), all unsigned 32-bit words. Each of 10 rounds computes the 64-bit products p = 0xD2511F53 *
c0 and q = 0xCD9E8D57 * c2, and replaces

    (c0, c1, c2, c3) = (hi(q) ^ c1 ^ k0, lo(q), hi(p) ^ c3 ^ k1, lo(p))

where hi and lo are the upper and lower 32 bits. After each round but the last, 0x9E3779B9 is added
to k0 and 0xBB67AE85 to k1, modulo 2^32. Then out[n, i] = floor(c_i / 2^8) / 2^24, which is exact
in float32.
"""

import torch

_MASK = 0xFFFFFFFF


def reference(key, blocks):
    zero = torch.zeros(int(blocks), dtype=torch.int64, device=key.device)
    # A compiler may compute with whole numbers of `arange` in 32 bits, as with indices.
    number = torch.arange(int(blocks), dtype=torch.float64, device=key.device).long()
    counter = [number, zero, zero, zero]
    words = torch.stack(_philox(counter, key[0], key[1]), dim=1)
    return (words >> 8).float() * 2.0**-24


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
    return 16 * case["blocks"] + 16, 80 * case["blocks"]
