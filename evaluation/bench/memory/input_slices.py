"""Secret slices of memory, of lengths that differ by orders of magnitude."""

from __future__ import annotations

import secrets

from evaluation.bench.memory.layout import ALIGNMENT

MIN_BYTES = 256
"""Least length of a slice."""


def secret_slice(size: int, max_bytes: int | None = None) -> slice:
    """Return a secret slice of `size` bytes, of a log-uniform length up to `max_bytes`.

    One in four has the largest length.
    """
    if max_bytes is not None and max_bytes < size:
        first = secrets.randbelow((size - max_bytes) // ALIGNMENT + 1) * ALIGNMENT
        part = secret_slice(max_bytes)
        return slice(first + part.start, first + part.stop)
    if secrets.randbelow(4) == 0:
        return slice(0, size)
    doublings = max(1, (size // MIN_BYTES).bit_length())
    length = min(size, MIN_BYTES << secrets.randbelow(doublings))
    first = secrets.randbelow((size - length) // ALIGNMENT + 1) * ALIGNMENT
    return slice(first, first + length)
