"""Numbers from a key, by a linear congruential generator of 32 bits for each element.

Element n begins with the word key[0] + 2654435761 (n + 1). Each of 2048 rounds multiplies it by
1664525 and adds 1013904223 + key[1], all modulo 2^32. The number is floor(word / 2^8) / 2^24.
"""

import torch

ROUNDS, FACTOR, SUMMAND, DISTANCE = 2048, 1664525, 1013904223, 2654435761
WORDS = 1 << 32
ALL_FACTORS = pow(FACTOR, ROUNDS, WORDS)
ALL_SUMMANDS = sum(pow(FACTOR, number, WORDS) for number in range(ROUNDS)) % WORDS


def reference(key, rows, cols):
    places = torch.arange(1, int(rows * cols) + 1, device=key.device)
    first = (key[0] + DISTANCE * places) % WORDS
    # Products wrap at 2^64, which leaves their lower 32 bits as they are.
    words = (ALL_FACTORS * first + ALL_SUMMANDS * ((SUMMAND + key[1]) % WORDS)) % WORDS
    return ((words >> 8).float() * 2.0**-24).view(int(rows), int(cols))


def cost(case):
    elements = case["rows"] * case["cols"]
    return 4 * elements + 16, 2 * ROUNDS * elements
